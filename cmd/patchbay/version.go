package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/pflag"
)

// version is set by the linker for a release.
var version = ""

// softwareVersion is the release, or else the commit that was built.
func softwareVersion() string {
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

type versionOptions struct{}

func (o *versionOptions) AddFlags(*pflag.FlagSet) {}

func (o *versionOptions) Validate(args []string) error { return noArguments(args) }

func (o *versionOptions) Run(_ context.Context, c console) error {
	fmt.Fprintln(c.out, versionLine())
	return nil
}

func versionLine() string {
	return fmt.Sprintf("patchbay %s (%s, %s/%s)", softwareVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
