package site

import "runtime/debug"

// version is set by the linker for a release.
var version = ""

// SoftwareVersion returns the release, or else the commit that was built.
func SoftwareVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-changed"
		}
	}
	if commit == "" {
		return "development"
	}
	return "development-" + commit + changed
}
