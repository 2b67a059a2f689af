package rspec

import (
	"errors"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"patchbay/rspec/setup"
	"patchbay/schemas/xmltree"
)

// Limits of one archive, and of the base of references in bytes.
const (
	maxAccounts = 1000
	maxSegments = 256
	maxBase     = 2048
)

// archiveTypes are the types of archives that nodes unpack. An empty type is found by the name or
// the content.
var archiveTypes = []string{"", "tar", "tgz", "tbz", "tbz2", "txz", "tar.gz", "tar.bz2", "tar.xz", "zip"}

var (
	isAccountName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,30}[$]?$`).MatchString
	isPermissions = regexp.MustCompile(`^0?[0-7]{3}$`).MatchString
)

// artifact is what an ArtifactTemplate, an install or an execute says about its artifacts.
type artifact struct {
	references []reference
	// archives are the properties of the artifact, uses those of one use of it.
	archives, uses []archiveProperties
	script         *scriptProperties
	// hasArchive states that there are properties of archives, perhaps of none.
	hasArchive, failed bool
}

type reference struct {
	e    *xmltree.Element
	text string
	// url is the text resolved against the base; empty if that is not possible.
	url string
}

// archiveProperties describe the archive with the reference; all archives if that is empty.
type archiveProperties struct {
	e               *xmltree.Element
	reference, kind string
	setup.ArchiveProperties
}

type scriptProperties struct {
	e                 *xmltree.Element
	language, primary string
}

func isTOSCA(e *xmltree.Element) bool { return e.Space == toscaSpace || e.Space == toscaBase }

// isInTOSCA reports whether e, inside an element of TOSCA, belongs to TOSCA. Real documents also
// leave out the namespace there, or have the default one.
func isInTOSCA(e *xmltree.Element) bool {
	return isTOSCA(e) || e.Space == "" || e.Space == Namespace
}

// artifactReader reads artifacts. The client_id is empty in templates.
type artifactReader struct {
	*requestParser
	clientID string
	failed   bool
}

func (r *artifactReader) wrong(at place, remedy, format string, args ...any) {
	r.refuseAt(BadArgs, at, remedy, format, args...)
}

func (r *artifactReader) refuseAt(k Kind, at place, remedy, format string, args ...any) {
	r.failed = true
	r.refuse(k, at, r.clientID, remedy, format, args...)
}

// unknown adds a remark about e, unless it belongs to another extension.
func (r *artifactReader) unknown(e *xmltree.Element, remedy string) {
	if isTOSCA(e) {
		r.remark(place{e, ""}, r.clientID, remedy+"; "+ignored, "<%.40s> has an unknown element <%.60s>", e.Parent.Local, e.Local)
	}
}

// template returns the ArtifactTemplate with the id, or nil. It reads it when it is first used.
func (p *requestParser) template(id string) *artifact {
	e := p.templates[id]
	if e == nil {
		return nil
	}
	a := p.artifacts[e]
	if a == nil {
		r := artifactReader{requestParser: p}
		a = r.readArtifact(e, "")
		for _, list := range [][]archiveProperties{a.archives, a.uses} {
			r.checkReferences(list, a.references)
		}
		a.failed = r.failed
		if p.artifacts == nil {
			p.artifacts = map[*xmltree.Element]*artifact{}
		}
		p.artifacts[e] = a
	}
	return a
}

// addTemplate records an ArtifactTemplate, a child of the root.
func (p *requestParser) addTemplate(e *xmltree.Element) {
	id := trimmed(e, "id")
	if before := p.templates[id]; before != nil {
		p.badArgs(place{e, "id"}, "", "rename one of them", "two ArtifactTemplates have the id %.80q, this one and the one in line %d", id, before.Line)
		return
	}
	if p.templates == nil {
		p.templates = map[string]*xmltree.Element{}
	}
	p.templates[id] = e
}

// readArtifact reads the elements of TOSCA in e. The base is the URL of relative references that
// no xml:base concerns; empty if there is none.
func (r *artifactReader) readArtifact(e *xmltree.Element, base string) *artifact {
	a := &artifact{}
	isTemplate := isTOSCA(e)
	var properties []*xmltree.Element
	for c := range childElements(e) {
		switch {
		case !isTOSCA(c) && !(isTemplate && isInTOSCA(c)):
		case c.Local == "Properties":
			for p := range childElements(c) {
				if isInTOSCA(p) {
					properties = append(properties, p)
				}
			}
		case c.Local == "ArtifactReferences":
			r.readReferences(c, base, a)
		default:
			properties = append(properties, c)
		}
	}
	for _, c := range properties {
		switch c.Local {
		case "ArchiveArtifactProperties":
			a.hasArchive = true
			a.archives = append(a.archives, r.readArchives(c, "ArchiveInformation", "ContentSourceLocation")...)
		case "ArchiveArtifactContextProperties":
			a.hasArchive = true
			a.uses = append(a.uses, r.readArchives(c, "ArchiveDeploymentInformation", "ContentDeploymentLocation")...)
		case "ScriptArtifactProperties":
			a.script = r.readScriptProperties(c)
		case "documentation", "PropertyConstraints":
		default:
			r.unknown(c, "use ArchiveArtifactProperties, ArchiveArtifactContextProperties, ScriptArtifactProperties or ArtifactReferences")
		}
	}
	if n := max(len(a.references), len(a.archives), len(a.uses)); n > r.o.Limits.Services {
		r.refuseAt(TooBig, place{e, ""}, raiseRemedy("put the files into one archive", "services"), "<%.40s> has more than %d files", e.Local, r.o.Limits.Services)
	}
	return a
}

func (r *artifactReader) readReferences(e *xmltree.Element, base string, a *artifact) {
	for c := range childElements(e) {
		if !isInTOSCA(c) || c.Local != "ArtifactReference" {
			r.unknown(c, "use ArtifactReference")
			continue
		}
		for x := range childElements(c) {
			if isInTOSCA(x) && (x.Local == "Include" || x.Local == "Exclude") {
				r.refuseAt(Unsupported, place{x, ""}, "write an ArtifactReference for each file, or put them into an archive", "<%s> is not possible here", x.Local)
				break
			}
		}
		x := reference{e: c, text: trimmed(c, "reference")}
		if x.text == "" {
			r.wrong(place{c, "reference"}, "write the address of the file", "an ArtifactReference has no reference")
			continue
		}
		x.url = resolved(c, x.text, base)
		a.references = append(a.references, x)
	}
}

// resolved returns the URL of a reference in e: relative to the xml:base there, else to base.
// It is empty if the reference cannot be resolved.
func resolved(e *xmltree.Element, text, base string) string {
	u, err := url.Parse(text)
	for ; err == nil && !u.IsAbs() && e != nil; e = e.Parent {
		if b, given := e.Attr(xmlSpace, "base"); given {
			u, err = against(b, u)
		}
	}
	if err == nil && !u.IsAbs() && base != "" {
		u, err = against(base, u)
	}
	if err != nil || !u.IsAbs() {
		return ""
	}
	return u.String()
}

var errLongBase = errors.New("the base is too long")

func against(base string, u *url.URL) (*url.URL, error) {
	if len(base) > maxBase {
		return nil, errLongBase
	}
	b, err := url.Parse(strings.TrimSpace(base))
	if err != nil {
		return nil, err
	}
	return b.ResolveReference(u), nil
}

// readArchives reads the properties of archives, in elements of the name. The location is the
// name of the element with their path.
func (r *artifactReader) readArchives(e *xmltree.Element, name, location string) (list []archiveProperties) {
	for c := range childElements(e) {
		switch {
		case !isInTOSCA(c):
		case c.Local == "IdentityProperties":
			r.readIdentity(c)
		case c.Local == name:
			list = append(list, r.readArchive(c, location))
		default:
			r.unknown(c, "use "+name+" or IdentityProperties")
		}
	}
	return list
}

// readIdentity only adds remarks: nothing depends on identities.
func (r *artifactReader) readIdentity(e *xmltree.Element) {
	seen := map[string]bool{}
	for c := range childElements(e) {
		name := trimmed(c, "name")
		if isInTOSCA(c) && c.Local == "Property" && seen[name] {
			r.remark(place{c, "name"}, r.clientID, "rename one of them", "the IdentityProperties have the name %.80q twice", name)
		}
		seen[name] = true
	}
}

func (r *artifactReader) readArchive(e *xmltree.Element, location string) archiveProperties {
	a := archiveProperties{e: e, reference: trimmed(e, "archiveReference")}
	a.kind = strings.TrimPrefix(strings.ToLower(trimmed(e, "archiveType")), ".")
	if !slices.Contains(archiveTypes, a.kind) {
		r.refuseAt(Unsupported, place{e, "archiveType"}, "use "+strings.Join(archiveTypes[1:], ", "), "archives of the type %.40q are not possible here", a.kind)
	}
	for c := range childElements(e) {
		switch {
		case !isInTOSCA(c):
		case c.Local == "UserMap":
			a.Users = r.readAccounts(c, "User")
		case c.Local == "GroupMap":
			a.Groups = r.readAccounts(c, "Group")
		case c.Local == location:
			r.readLocation(c, &a)
		default:
			r.unknown(c, "use UserMap, GroupMap or "+location)
		}
	}
	return a
}

func (r *artifactReader) readAccounts(e *xmltree.Element, name string) (list []setup.Account) {
	seen := map[uint32]bool{}
	for c := range childElements(e) {
		if !isInTOSCA(c) || c.Local != name {
			r.unknown(c, "use "+name)
			continue
		}
		if len(list) == maxAccounts {
			r.refuseAt(TooBig, place{c, ""}, "leave some out", "a %s has more than %d accounts", e.Local, maxAccounts)
			break
		}
		a := setup.Account{Name: trimmed(c, "name")}
		var ok bool
		a.ID, ok = r.readID(c, "id")
		switch {
		case !isAccountName(a.Name):
			r.wrong(place{c, "name"}, "use at most 31 letters, digits, _, . and -", "a %s has the name %.40q", c.Local, a.Name)
		case ok && seen[a.ID]:
			r.wrong(place{c, "id"}, "leave one of them out", "a %s has the id %d twice", e.Local, a.ID)
		}
		seen[a.ID] = true
		list = append(list, a)
	}
	return list
}

// readID reads the number of an account. The highest number means none to the kernel.
func (r *artifactReader) readID(e *xmltree.Element, attr string) (id uint32, ok bool) {
	n, err := strconv.ParseUint(trimmed(e, attr), 10, 32)
	if err != nil || n == 1<<32-1 {
		r.wrong(place{e, attr}, "write a whole number from 0 to 4294967294", "a <%s> has %s=%.40q", e.Local, attr, value(e, attr))
		return 0, false
	}
	return uint32(n), true
}

// readLocation reads a path and its segments.
func (r *artifactReader) readLocation(e *xmltree.Element, a *archiveProperties) {
	text := trimmed(e, "path")
	if a.Path = path.Clean(text); !path.IsAbs(text) || hasDotDot(text) || len(text) > maxPath {
		r.wrong(place{e, "path"}, "write an absolute path without ..", "a %s has the path %.80q", e.Local, text)
		return
	}
	seen := map[string]bool{}
	for c := range childElements(e) {
		if !isInTOSCA(c) || c.Local != "Segment" {
			r.unknown(c, "use Segment")
			continue
		}
		if len(a.Folders) == maxSegments {
			r.refuseAt(TooBig, place{c, ""}, "leave some out", "a %s has more than %d segments", e.Local, maxSegments)
			break
		}
		f := r.readSegment(c, a.Path)
		if seen[f.Path] {
			r.wrong(place{c, "name"}, "leave one of them out", "a %s has the segment %.80q twice", e.Local, f.Path)
		}
		seen[f.Path] = true
		a.Folders = append(a.Folders, f)
	}
}

func hasDotDot(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }

// readSegment reads the owner and permissions of a folder. What is missing is root's and 0755.
func (r *artifactReader) readSegment(e *xmltree.Element, target string) setup.Folder {
	name := trimmed(e, "name")
	f := setup.Folder{Path: path.Clean(name), Mode: "0755"}
	switch {
	case !path.IsAbs(name) || hasDotDot(name) || !setup.IsInside(target, name):
		r.wrong(place{e, "name"}, "write the path itself, or a folder above it from the root, such as "+firstFolder(target), "the segment %.80q is not part of the path %.80q", name, target)
	case f.Path == "/":
		r.wrong(place{e, "name"}, "leave it out", "the segment / is not possible, because the root folder never changes")
	}
	for attr, id := range map[string]*uint32{"userID": &f.User, "groupID": &f.Group} {
		if value(e, attr) != "" {
			*id, _ = r.readID(e, attr)
		}
	}
	if text := trimmed(e, "permissions"); text != "" {
		f.Mode = "0" + text[max(0, len(text)-3):]
		if !isPermissions(text) {
			r.wrong(place{e, "permissions"}, "write three octal digits, such as 755; other bits are not possible", "a Segment has permissions=%.40q", text)
		}
	}
	return f
}

func firstFolder(p string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return "/" + first
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

// fits reports whether the reference text of an archive means an archive: the same text, or its
// end after a slash.
func fits(text, archive string) bool {
	return text == "" || text == archive || !strings.Contains(text, ":") && strings.HasSuffix(archive, "/"+strings.TrimPrefix(text, "./"))
}

// checkReferences requires that the properties are of one of the archives.
func (r *artifactReader) checkReferences(list []archiveProperties, archives []reference) {
	for _, p := range list {
		if !slices.ContainsFunc(archives, func(x reference) bool { return fits(p.reference, x.text) }) {
			r.wrong(place{p.e, "archiveReference"}, "copy the reference of the archive, or its end after a slash", "the archiveReference %.80q is no archive of the artifact", p.reference)
		}
	}
}

// templateOf returns the ArtifactTemplate that a step names: nil if it names none.
func (r *serviceReader) templateOf(e *xmltree.Element) *artifact {
	id, given := ownAttribute(e, "artifact")
	if !given {
		return nil
	}
	t := r.template(id)
	switch {
	case t == nil:
		r.wrong(place{e, "artifact"}, "use the id of an ArtifactTemplate in the rspec element", "node %.80q uses the artifact %.80q, but there is no such ArtifactTemplate", r.n.ClientID, id)
	case t.failed:
		r.failed = true
	}
	return t
}

// addArchive adds to an install what its artifacts say about the archive.
func (r *serviceReader) addArchive(e *xmltree.Element, s *setup.Step) {
	reader := artifactReader{requestParser: r.requestParser, clientID: r.n.ClientID}
	a, t := reader.readArtifact(e, s.URL), r.templateOf(e)
	if a.script != nil {
		r.remark(place{a.script.e, ""}, r.n.ClientID, "move them into an execute; "+ignored, "node %.80q has an install with ScriptArtifactProperties", r.n.ClientID)
	}
	archives := []reference{{text: s.URL, url: s.URL}}
	if t != nil {
		archives = t.references
		a.archives, a.uses, a.hasArchive = slices.Concat(t.archives, a.archives), slices.Concat(t.uses, a.uses), true
	}
	if !a.hasArchive {
		r.failed = r.failed || reader.failed
		return
	}
	if r.failed = r.failed || r.expanded > maxExpanded; !r.failed && !reader.failed {
		for _, list := range [][]archiveProperties{a.archives, a.uses} {
			reader.checkReferences(list, archives)
		}
	}
	if r.failed = r.failed || reader.failed; r.failed {
		return
	}
	i := slices.IndexFunc(archives, func(x reference) bool { return x.url == s.URL || fits(x.text, s.URL) })
	if i < 0 {
		r.wrong(place{e, "url"}, "use one of the references of the ArtifactTemplate", "node %.80q has an install whose url %.80q is no archive of its artifact", r.n.ClientID, s.URL)
		return
	}
	of, use := r.propertiesOf(a.archives, archives[i].text), r.propertiesOf(a.uses, archives[i].text)
	if r.failed || !r.expand(accountSize(of)+accountSize(use), r.n.element) {
		r.failed = true
		return
	}
	var err error
	if s.InstallPath, s.Archive, err = setup.Deploy(s.InstallPath, &of.ArchiveProperties, &use.ArchiveProperties); err != nil {
		r.wrong(place{e, "install_path"}, "write the path once, as install_path or in the location", "node %.80q has an install without a clear target: %v", r.n.ClientID, err)
		return
	}
	if of.kind != "" {
		s.FileType = of.kind
	}
}

// propertiesOf returns the properties of the archive. Several are a mistake.
func (r *serviceReader) propertiesOf(list []archiveProperties, archive string) (found archiveProperties) {
	for _, p := range list {
		if !fits(p.reference, archive) {
			continue
		}
		if found.e != nil {
			r.wrong(place{p.e, ""}, "leave one of them out", "node %.80q has two <%s> for one archive", r.n.ClientID, p.e.Local)
			break
		}
		found = p
	}
	return found
}

func accountSize(p archiveProperties) (n int) {
	for _, a := range slices.Concat(p.Users, p.Groups) {
		n += len(a.Name) + variableBytes
	}
	for _, f := range p.Folders {
		n += len(f.Path) + variableBytes
	}
	return n
}

// addScriptFiles sets the script of an execute and its files, if it has an artifact, and reports
// whether it has.
func (r *serviceReader) addScriptFiles(e *xmltree.Element, s *setup.Step) bool {
	id := r.n.ClientID
	reader := artifactReader{requestParser: r.requestParser, clientID: id}
	a, t := reader.readArtifact(e, ""), r.templateOf(e)
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
	i := slices.IndexFunc(s.Files, func(f setup.File) bool { return f.Path == path.Clean(primary) || fits(primary, f.URL) })
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

// filesOf returns the files of a script: those with a relative reference under that path, others
// under the last part of their URL. A data URL has no name: it is the script.
func (r *serviceReader) filesOf(a *artifact) (files []setup.File) {
	seen := map[string]bool{}
	for _, x := range a.references {
		f := setup.File{URL: x.url}
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
