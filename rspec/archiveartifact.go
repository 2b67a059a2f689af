package rspec

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"patchbay/rspec/step"
	"patchbay/schemas/xmltree"
)

// Limits of one archive.
const (
	maxAccounts = 1000
	maxSegments = 256
)

// archiveTypes are the types of archives that nodes unpack. An empty type is found by the name or
// the content.
var archiveTypes = []string{"", "tar", "tgz", "tbz", "tbz2", "txz", "tar.gz", "tar.bz2", "tar.xz", "zip"}

var (
	isAccountName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,30}[$]?$`).MatchString
	isPermissions = regexp.MustCompile(`^0?[0-7]{3}$`).MatchString
)

// archiveProperties describe the archive that the reference refers to; all archives if the reference is empty.
type archiveProperties struct {
	e               *xmltree.Element
	reference, kind string
	step.ArchiveProperties
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

func (r *artifactReader) readAccounts(e *xmltree.Element, name string) (list []step.Account) {
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
		a := step.Account{Name: trimmed(c, "name")}
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
func (r *artifactReader) readSegment(e *xmltree.Element, target string) step.Folder {
	name := trimmed(e, "name")
	f := step.Folder{Path: path.Clean(name), Mode: "0755"}
	switch {
	case !path.IsAbs(name) || hasDotDot(name) || !step.IsInside(target, name):
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

// checkReferences requires that the properties are of one of the archives.
func (r *artifactReader) checkReferences(list []archiveProperties, archives []reference) {
	for _, p := range list {
		if !slices.ContainsFunc(archives, func(x reference) bool { return refersTo(p.reference, x.text) }) {
			r.wrong(place{p.e, "archiveReference"}, "copy the reference of the archive, or its end after a slash", "the archiveReference %.80q is no archive of the artifact", p.reference)
		}
	}
}

// addArchive adds to the install s, the element e, what its artifact and its ArtifactTemplate say about the
// archive: the target folder, the accounts, the folders and the type. It sets r.failed after a mistake.
func (r *serviceReader) addArchive(e *xmltree.Element, s *step.Step) {
	reader := artifactReader{requestParser: r.requestParser, clientID: r.n.ClientID}
	a, t := reader.readArtifact(e, s.URL), r.artifactTemplateOf(e)
	if a.script != nil {
		r.remark(place{a.script.e, ""}, r.n.ClientID, "move them into an execute; "+ignored, "node %.80q has an install with ScriptArtifactProperties", r.n.ClientID)
	}
	archives := []reference{{text: s.URL, url: s.URL}}
	if t != nil {
		archives = t.references
		a.archives, a.uses, a.hasArchive = slices.Concat(t.archives, a.archives), slices.Concat(t.uses, a.uses), true
	}
	if r.failed = r.failed || reader.failed; r.failed || !a.hasArchive {
		return
	}
	if r.expanded > maxExpanded { // the request is refused anyway
		r.failed = true
		return
	}
	for _, list := range [][]archiveProperties{a.archives, a.uses} {
		reader.checkReferences(list, archives)
	}
	if reader.failed {
		r.failed = true
		return
	}
	i := slices.IndexFunc(archives, func(x reference) bool { return x.url == s.URL || refersTo(x.text, s.URL) })
	if i < 0 {
		r.wrong(place{e, "url"}, "use one of the references of the ArtifactTemplate", "node %.80q has an install whose url %.80q is no archive of its artifact", r.n.ClientID, s.URL)
		return
	}
	archive, use := r.propertiesOf(a.archives, archives[i].text), r.propertiesOf(a.uses, archives[i].text)
	if r.failed || !r.expand(propertiesSize(archive)+propertiesSize(use), r.n.element) {
		r.failed = true
		return
	}
	var err error
	if s.InstallPath, s.Archive, err = step.Deploy(s.InstallPath, &archive.ArchiveProperties, &use.ArchiveProperties); err != nil {
		r.wrong(place{e, "install_path"}, "write the path once, as install_path or in the location", "node %.80q has an install without a clear target: %v", r.n.ClientID, err)
		return
	}
	if archive.kind != "" {
		s.FileType = archive.kind
	}
}

// propertiesOf returns the properties in the list that refer to the archive; empty ones if there are none.
// Several are a mistake.
func (r *serviceReader) propertiesOf(list []archiveProperties, archive string) (found archiveProperties) {
	for _, p := range list {
		if !refersTo(p.reference, archive) {
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

// propertiesSize returns about how many bytes the accounts and folders take in a step.
func propertiesSize(p archiveProperties) (n int) {
	for _, a := range slices.Concat(p.Users, p.Groups) {
		n += len(a.Name) + variableBytes
	}
	for _, f := range p.Folders {
		n += len(f.Path) + variableBytes
	}
	return n
}
