package rspec

import (
	"encoding/base64"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchbay/rspec/step"
	"patchbay/schemas/xmltree"
)

// Paths of the script that a step contains, and of the playbook.
const (
	scriptPath   = "script"
	playbookPath = "playbook"
)

// maxStepFiles limits the files of a step, with the script. Nodes take a few more.
const maxStepFiles = 250

// readFile reads a file beside the script of a step.
func (r *serviceReader) readFile(e *xmltree.Element, q *step.Requested) {
	id := r.n.ClientID
	r.remarkOwn(e, id, "path", "url")
	f := step.File{URL: trimmed(e, "url"), Path: value(e, "path")}
	here := place{e, "path"}
	_, isOfCatalogue := step.CatalogueFile(f.URL)
	if f.URL == "" {
		f.URL = dataURL(r.readBody(e))
	} else if !isOfCatalogue || strings.TrimSpace(e.Text()) != "" {
		r.wrong(place{e, "url"}, "write "+step.CatalogueScheme+"NAME, with the name of a file in the site's catalogue, and no content; or the content without a url", "node %.80q has a file with the url %.80q", id, f.URL)
	}
	switch {
	case r.failed:
	case f.Path != path.Clean(f.Path) || f.Path == "." || hasDotDot(f.Path) || path.IsAbs(f.Path) || len(f.Path) > maxPath || strings.ContainsFunc(f.Path, unicode.IsControl):
		r.wrong(here, "write a relative path such as templates/index.html", "node %.80q has a file with the path %.80q", id, f.Path)
	case len(q.Files) == maxStepFiles:
		r.refuseStep(TooBig, place{e, ""}, "put them into an archive that an install fetches", "node %.80q has a step with more than %d files", id, maxStepFiles-1)
	case !r.expand(len(f.URL)+len(f.Path)+variableBytes, r.n.element):
		r.failed = true
	default:
		for _, other := range q.Files {
			if step.IsInside("/"+f.Path, "/"+other.Path) || step.IsInside("/"+other.Path, "/"+f.Path) {
				r.wrong(here, "rename it", "node %.80q has a step with the files %.80q and %.80q, which cannot be in one folder", id, other.Path, f.Path)
				return
			}
		}
		if step.IsInside("/"+f.Path, "/"+step.PlaybookFolder) {
			r.wrong(here, "rename it", "node %.80q has a file %.80q, but that folder is reserved", id, f.Path)
			return
		}
		q.Files = append(q.Files, f)
	}
}

// readBody decodes the text of e itself, which is base64.
func (r *serviceReader) readBody(e *xmltree.Element) (body []byte) {
	var own strings.Builder
	for _, c := range e.Children {
		if t, ok := c.(xmltree.Text); ok { // a file is not part of its step
			own.WriteString(strings.Join(strings.Fields(string(t)), ""))
		}
	}
	id, text := r.n.ClientID, strings.TrimRight(own.String(), "=")
	if base64.RawStdEncoding.DecodedLen(len(text)) > r.o.Limits.Command {
		r.refuseStep(TooBig, place{e, ""}, raiseRemedy("install a script and execute that", "command"), "node %.80q has a <%s> of more than %d bytes", id, e.Local, r.o.Limits.Command)
		return nil
	}
	body, err := base64.RawStdEncoding.DecodeString(text)
	switch {
	case err != nil:
		r.wrong(place{e, ""}, "encode the text with base64, such as by: base64 -w0 FILE", "node %.80q has a <%s> whose content is not base64", id, e.Local)
	case len(body) == 0:
		r.wrong(place{e, ""}, "write the text as its content, in base64", "node %.80q has a <%s> without content", id, e.Local)
	}
	return body
}

func dataURL(body []byte) string {
	return "data:;base64," + base64.StdEncoding.EncodeToString(body)
}

// scriptOf returns a step that runs body, a file with the path, by shell. Without a shell, its
// first line decides.
func scriptOf(body []byte, shell, path string) step.Step {
	return step.Step{Kind: step.Execute, Shell: shell, Script: path, Files: []step.File{{URL: dataURL(body), Path: path}}}
}

func namesInterpreter(body []byte) bool {
	return strings.HasPrefix(string(body[:min(len(body), 2)]), "#!")
}

// isText reports whether a body is UTF-8 without control characters other than blanks.
func isText(body []byte) bool {
	return utf8.Valid(body) && !strings.ContainsFunc(string(body), func(c rune) bool { return unicode.IsControl(c) && !unicode.IsSpace(c) })
}

func (r *serviceReader) readScript(e *xmltree.Element) {
	body := r.readBody(e)
	shell, path := strings.TrimPrefix(trimmed(e, "language"), "/bin/"), scriptPath
	switch {
	case !namesInterpreter(body) && !isText(body) && !r.failed:
		r.wrong(place{e, ""}, "encode the script itself, such as by: base64 -w0 FILE", "node %.80q has a <step> that decodes to bytes that are no script", r.n.ClientID)
	case shell == "" && !namesInterpreter(body):
		shell = "sh"
	case shell == "ansible":
		shell, path = "sh", playbookPath
	case shell != "" && shell != "sh" && shell != "bash":
		r.refuseStep(Unsupported, place{e, "language"}, "use sh, bash or ansible, or begin the script with #! and leave the language out", "node %.80q has a step in the language %.40q", r.n.ClientID, shell)
	}
	r.add(e, scriptOf(body, shell, path), "name", "language", "order", "operation", "sudo", "background", "again")
}
