package rspec

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"patchbay/rspec/step"
	"patchbay/schemas/xmltree"
)

type scriptProperties struct {
	e                 *xmltree.Element
	language, primary string
}

func (r *artifactReader) readScriptProperties(e *xmltree.Element) *scriptProperties {
	s := &scriptProperties{e: e}
	for c := range childElements(e) {
		switch {
		case !isInTOSCA(c):
		case c.Local == "ScriptLanguage":
			s.language = strings.TrimSpace(c.Text())
		case c.Local == "PrimaryScript":
			s.primary = strings.TrimSpace(c.Text())
		case c.Local == "IdentityProperties":
			r.readIdentity(c)
		default:
			r.unknown(c, "use ScriptLanguage, then PrimaryScript")
		}
	}
	shell := path.Base(strings.ToLower(s.language))
	switch {
	case s.language == "":
		r.wrong(place{e, ""}, "add <ScriptLanguage>sh</ScriptLanguage>", "the ScriptArtifactProperties have no ScriptLanguage")
	case shell != "sh" && shell != "bash":
		r.refuseAt(Unsupported, place{e, ""}, "use sh or bash", "scripts in the language %.80q are not possible here", s.language)
	}
	if s.language = shell; s.primary == "" {
		r.wrong(place{e, ""}, "name the file that is run", "the ScriptArtifactProperties have no PrimaryScript")
	}
	return s
}

// addScriptFiles sets the script and the files of the execute s, the element e, if it has an artifact. It
// returns false if there is no artifact, so that the command runs. After a mistake it sets r.failed, and
// returns true.
func (r *serviceReader) addScriptFiles(e *xmltree.Element, s *step.Step) bool {
	id := r.n.ClientID
	reader := artifactReader{requestParser: r.requestParser, clientID: id}
	a, t := reader.readArtifact(e, ""), r.artifactTemplateOf(e)
	if a.hasArchive {
		r.remark(place{e, ""}, id, "move them into an install; "+ignored, "node %.80q has an execute with properties of archives", id)
	}
	if r.failed = r.failed || reader.failed || r.expanded > maxExpanded; r.failed {
		return true
	}
	if t != nil {
		a.references = slices.Concat(t.references, a.references)
		if a.script == nil {
			a.script = t.script
		}
	}
	switch {
	case a.script == nil && t == nil && len(a.references) == 0:
		return false
	case a.script == nil:
		r.wrong(place{e, ""}, "add ScriptArtifactProperties", "node %.80q has an execute with files, but without ScriptArtifactProperties", id)
		return true
	case len(a.references) == 0:
		r.wrong(place{a.script.e, ""}, "add ArtifactReferences, or name an ArtifactTemplate that has them with setup:artifact", "node %.80q has an execute with a PrimaryScript, but without files", id)
		return true
	}
	s.Shell, s.Command = a.script.language, ""
	if s.Files = r.filesOf(a); r.failed {
		return true
	}
	primary := strings.TrimPrefix(a.script.primary, "./")
	i := slices.IndexFunc(s.Files, func(f step.File) bool { return f.Path == path.Clean(primary) || refersTo(primary, f.URL) })
	if i < 0 {
		r.wrong(place{a.script.e, ""}, "name one of the ArtifactReferences", "the PrimaryScript %.80q is no file of the artifact", primary)
		return true
	}
	s.Script = s.Files[i].Path
	if command := strings.Fields(value(e, "command")); len(command) > 0 {
		last := command[len(command)-1]
		if len(command) > 2 || last != primary && !strings.HasSuffix(last, "/"+primary) {
			r.remark(place{e, "command"}, id, "other aggregates run the command", "node %.80q has an execute with a PrimaryScript, so %.80q runs here in place of its command", id, primary)
		}
	}
	return true
}

// filesOf returns the files of a script. A file with a relative reference has that path, another one the last
// part of its URL. A data URL has no name, so it is the script. After a mistake filesOf sets r.failed, and
// returns nil.
func (r *serviceReader) filesOf(a *artifact) (files []step.File) {
	seen := map[string]bool{}
	for _, x := range a.references {
		f := step.File{URL: x.url}
		u, err := url.Parse(x.text)
		switch {
		case err != nil:
		case u.Scheme == "data":
			f.Path = path.Clean(a.script.primary)
		case u.IsAbs() || u.Host != "" || strings.HasPrefix(u.Path, "/"):
			f.Path = path.Base(u.Path)
		default:
			f.Path = path.Clean(u.Path)
		}
		switch {
		case err != nil || hasDotDot(f.Path) || path.IsAbs(f.Path) || f.Path == "." || f.Path == "" || len(f.Path) > maxPath || strings.ContainsRune(f.Path, 0):
			r.wrong(place{x.e, "reference"}, "write a relative path without .., or an http or https URL with a file", "the reference %.80q is no path of a file", x.text)
		case len(f.URL) > r.o.Limits.Command || !isFetchable(f.URL):
			r.wrong(place{x.e, "reference"}, "write an http or https URL, or add xml:base to the ArtifactTemplate", "the reference %.80q cannot be fetched", x.text)
		case seen[f.Path]:
			r.wrong(place{x.e, "reference"}, "rename one of them", "two files of a script have the path %.80q", f.Path)
		case !r.expand(len(f.URL)+len(f.Path)+variableBytes, r.n.element):
			r.failed = true
		}
		if r.failed {
			return nil
		}
		seen[f.Path] = true
		files = append(files, f)
	}
	for i, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if seen[dir] {
				r.wrong(place{a.references[i].e, "reference"}, "rename one of them", "the file %.80q of a script is also the folder of another file, %.80q", dir, f.Path)
				return nil
			}
		}
	}
	return files
}
