package rspec

import (
	"net/url"
	"strings"

	"patchbay/rspec/setup"
	"patchbay/schemas/xmltree"
)

// notDone ends remarks about invalid steps, for which a request is not refused.
const notDone = "; this step will be ignored"

// maxPath is Linux's limit, in bytes.
const maxPath = 4095

// addServices reads the installs and executes in e, a services element of n. An invalid one
// gets a remark and is only copied. The parameter count is the number of all installs and
// executes of n that were read so far.
func (p *requestParser) addServices(e *xmltree.Element, n *Node, count *int) {
	for c := range childElements(e) {
		install, execute := isElement(c, "install"), isElement(c, "execute")
		if !install && !execute {
			continue
		}
		if *count++; *count == p.o.Limits.Services+1 {
			p.refuse(TooBig, place{c, ""}, n.ClientID, raiseRemedy("put several commands into one", "services"), "node %.80q has more than %d installs and executes", n.ClientID, p.o.Limits.Services)
		}
		if *count > p.o.Limits.Services {
			return
		}
		if install {
			p.addInstall(c, n)
		} else {
			p.addExecute(c, n)
		}
	}
}

func (p *requestParser) addInstall(e *xmltree.Element, n *Node) {
	i := setup.Step{Kind: setup.Install, URL: trimmed(e, "url"), InstallPath: trimmed(e, "install_path"), FileType: trimmed(e, "file_type")}
	switch {
	case len(i.URL) > p.o.Limits.Command:
		p.refuse(TooBig, place{e, "url"}, n.ClientID, raiseRemedy("put the archive on a web server and write its address", "command"), "node %.80q has an install whose url has more than %d bytes", n.ClientID, p.o.Limits.Command)
	case !isFetchable(i.URL):
		p.remark(place{e, "url"}, n.ClientID, "write an http, https or data URL"+notDone, "node %.80q has an install with the url %.80q", n.ClientID, i.URL)
	case !isInstallPath(i.InstallPath):
		p.remark(place{e, "install_path"}, n.ClientID, "use an absolute path such as /local, or one that begins with ~/"+notDone, "node %.80q has an install with the install_path %.80q", n.ClientID, i.InstallPath)
	default:
		n.Services.Steps = append(n.Services.Steps, setup.Requested{Step: i})
	}
}

// isFetchable requires an http or https URL with a host, or a data URL.
func isFetchable(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Hostname() != ""
	case "data":
		return strings.Contains(text, ",")
	}
	return false
}

func isInstallPath(s string) bool {
	return len(s) <= maxPath && (strings.HasPrefix(s, "/") || s == "~" || strings.HasPrefix(s, "~/"))
}

func (p *requestParser) addExecute(e *xmltree.Element, n *Node) {
	x := setup.Step{Kind: setup.Execute, Shell: strings.TrimPrefix(trimmed(e, "shell"), "/bin/"), Command: value(e, "command")}
	switch {
	case len(x.Command) > p.o.Limits.Command:
		p.refuse(TooBig, place{e, "command"}, n.ClientID, raiseRemedy("install a script and execute that", "command"), "node %.80q has an execute whose command has more than %d bytes", n.ClientID, p.o.Limits.Command)
	case x.Shell != "sh" && x.Shell != "bash":
		p.remark(place{e, "shell"}, n.ClientID, "use sh or bash"+notDone, "node %.80q has an execute with the shell %.80q", n.ClientID, value(e, "shell"))
	case strings.TrimSpace(x.Command) == "":
		p.remark(place{e, "command"}, n.ClientID, "write one"+notDone, "node %.80q has an execute without a command", n.ClientID)
	default:
		n.Services.Steps = append(n.Services.Steps, setup.Requested{Step: x})
	}
}
