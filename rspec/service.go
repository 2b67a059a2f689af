package rspec

import (
	"net/url"
	"slices"
	"strings"

	"patchbay/rspec/step"
	"patchbay/schemas/xmltree"
)

// notDone ends remarks about invalid steps, for which a request is not refused.
const notDone = "; this step will be ignored"

// maxPath is Linux's limit, in bytes.
const maxPath = 4095

// serviceReader reads the services of an own node.
type serviceReader struct {
	*requestParser
	n          *Node
	node       int // index of n in Request.Nodes
	count      int // steps that were read, also wrong ones
	properties []*xmltree.Element
	parameters int // properties that were read, also wrong ones

	// isPlain states that the current step is an install or execute without our extensions,
	// and failed that it has a mistake.
	isPlain, failed bool
}

// read reads e, a services element, and adds its steps and properties to the node. A step with a mistake is left
// out, and the steps beyond the limit are not read.
func (r *serviceReader) read(e *xmltree.Element) {
	for c := range childElements(e) {
		var read func(*xmltree.Element)
		switch {
		case isElement(c, "install"):
			read = r.readInstall
		case isElement(c, "execute"):
			read = r.readExecute
		case c.Space != setupSpace:
			r.remarkForeign(c, &setupExtension)
			continue
		case c.Local == "step":
			read = r.readScript
		case c.Local == "userdata":
			read = r.readUserData
		case c.Local == "disk":
			read = r.readDisk
		case c.Local == "parameter":
			r.isPlain = false
			if p, ok := r.readParameter(c, &r.parameters); ok {
				r.n.Services.Properties = append(r.n.Services.Properties, p)
				r.properties = append(r.properties, c)
			}
			continue
		default:
			r.remark(place{c, ""}, r.n.ClientID, "use step, parameter, userdata or disk; "+ignored, "node %.80q has an unknown element <%.40s>", r.n.ClientID, c.Local)
			continue
		}
		if r.count++; r.count == r.o.Limits.Services+1 {
			r.refuse(TooBig, place{c, ""}, r.n.ClientID, raiseRemedy("put several commands into one", "services"), "node %.80q has more than %d steps, such as installs and executes", r.n.ClientID, r.o.Limits.Services)
		}
		if r.count > r.o.Limits.Services {
			return
		}
		r.isPlain, r.failed = !isExtended(c), false
		r.remarkPrefixes(c)
		read(c)
	}
}

// ownAttributes are names that are easily written in the wrong namespace.
var ownAttributes = []string{"order", "operation", "sudo", "background", "again", "name", "artifact"}

// remarkPrefixes adds remarks on attributes of a step that have a prefix too many or too few, and on
// children that look like ours.
func (r *serviceReader) remarkPrefixes(e *xmltree.Element) {
	id := r.n.ClientID
	for _, a := range e.Attrs {
		switch own := slices.Contains(ownAttributes, a.Local); {
		case own && a.Space == "" && e.Space == Namespace:
			r.remark(place{e, a.Local}, id, "write setup:"+a.Local+"; "+ignored, "an <%s> of node %.80q has the attribute %s without a prefix", e.Local, id, a.Local)
		case own && a.Space == setupSpace && e.Space == setupSpace:
			r.remark(place{e, a.Local}, id, "write "+a.Local+" without a prefix; "+ignored, "a <%s> of node %.80q has the attribute %s with a prefix", e.Local, id, a.Local)
		case isMisspelledSpace(a.Space):
			r.remark(place{e, a.Local}, id, "use "+similarSpace(a.Space, &setupExtension)+"; "+ignored, "the attribute %.40s of node %.80q is in the unknown namespace %.80q", a.Local, id, a.Space)
		}
	}
	for c := range childElements(e) {
		r.remarkForeign(c, &setupExtension)
	}
}

// isExtended reports whether e has anything of our extension or TOSCA.
func isExtended(e *xmltree.Element) bool {
	if e.Space == setupSpace || slices.ContainsFunc(e.Attrs, func(a xmltree.Attr) bool { return a.Space == setupSpace }) {
		return true
	}
	for c := range childElements(e) {
		if c.Space == setupSpace || isTOSCA(c) {
			return true
		}
	}
	return false
}

// wrong records a mistake in the current step, and sets r.failed. If the step is plain, the request is not
// refused.
func (r *serviceReader) wrong(at place, remedy, format string, args ...any) {
	if r.isPlain {
		remedy += notDone
	}
	r.refuseStep(BadArgs, at, remedy, format, args...)
}

// refuseStep records a mistake as wrong does, as a refusal of the kind k. A plain step is refused for other kinds
// than BadArgs.
func (r *serviceReader) refuseStep(k Kind, at place, remedy, format string, args ...any) {
	r.failed = true
	if r.isPlain && k == BadArgs {
		r.remark(at, r.n.ClientID, remedy, format, args...)
	} else {
		r.refuse(k, at, r.n.ClientID, remedy, format, args...)
	}
}

func (r *serviceReader) readInstall(e *xmltree.Element) {
	id := r.n.ClientID
	i := step.Step{Kind: step.Install, URL: trimmed(e, "url"), InstallPath: trimmed(e, "install_path"), FileType: trimmed(e, "file_type")}
	if !r.isPlain {
		r.addArchive(e, &i)
	}
	switch {
	case r.failed:
	case len(i.URL) > r.o.Limits.Command:
		r.refuseStep(TooBig, place{e, "url"}, raiseRemedy("put the archive on a web server and write its address", "command"), "node %.80q has an install whose url has more than %d bytes", id, r.o.Limits.Command)
	case !isFetchable(i.URL):
		r.wrong(place{e, "url"}, "write an http, https or data URL, or "+step.CatalogueScheme+"NAME for a file of the site's catalogue", "node %.80q has an install with the url %.80q", id, i.URL)
	case !isInstallPath(i.InstallPath):
		r.wrong(place{e, "install_path"}, "use an absolute path such as /local, or one that begins with ~/", "node %.80q has an install with the install_path %.80q", id, i.InstallPath)
	}
	r.add(e, i, "name", "order", "operation", "artifact")
}

// isFetchable requires an http or https URL with a host, a data URL, or the name of a file in the
// site's catalogue. Only the site adds the digest of such a file.
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
	_, ok := step.CatalogueFile(text)
	return ok
}

func isInstallPath(s string) bool {
	return len(s) <= maxPath && (strings.HasPrefix(s, "/") || s == "~" || strings.HasPrefix(s, "~/"))
}

func (r *serviceReader) readExecute(e *xmltree.Element) {
	id := r.n.ClientID
	x := step.Step{Kind: step.Execute, Shell: strings.TrimPrefix(trimmed(e, "shell"), "/bin/"), Command: value(e, "command")}
	hasScript := !r.isPlain && r.addScriptFiles(e, &x)
	switch {
	case hasScript || r.failed:
	case len(x.Command) > r.o.Limits.Command:
		r.refuseStep(TooBig, place{e, "command"}, raiseRemedy("install a script and execute that", "command"), "node %.80q has an execute whose command has more than %d bytes", id, r.o.Limits.Command)
	case x.Shell != "sh" && x.Shell != "bash":
		r.wrong(place{e, "shell"}, "use sh or bash", "node %.80q has an execute with the shell %.80q", id, value(e, "shell"))
	case strings.TrimSpace(x.Command) == "":
		r.wrong(place{e, "command"}, "write one", "node %.80q has an execute without a command", id)
	}
	r.add(e, x, "name", "order", "operation", "sudo", "background", "again", "artifact")
}
