package rspec

import (
	"errors"
	"net/url"
	"strings"

	"patchbay/schemas/xmltree"
)

// maxBase limits the base of references, in bytes.
const maxBase = 2048

// artifact has the artifacts that an ArtifactTemplate, an install or an execute describes.
type artifact struct {
	references []reference
	// archives are the properties of the archives themselves, uses those of one use of the archives.
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

// artifactTemplate returns the ArtifactTemplate with the id, or nil. It reads the element at its first use.
// Mistakes in it are then reported once, and artifact.failed is set.
func (p *requestParser) artifactTemplate(id string) *artifact {
	e := p.artifactTemplates[id]
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

// addArtifactTemplate records an ArtifactTemplate, a child of the root.
func (p *requestParser) addArtifactTemplate(e *xmltree.Element) {
	id := trimmed(e, "id")
	if before := p.artifactTemplates[id]; before != nil {
		p.badArgs(place{e, "id"}, "", "rename one of them", "two ArtifactTemplates have the id %.80q, this one and the one in line %d", id, before.Line)
		return
	}
	if p.artifactTemplates == nil {
		p.artifactTemplates = map[string]*xmltree.Element{}
	}
	p.artifactTemplates[id] = e
}

// readArtifact reads the elements of TOSCA in e: an ArtifactTemplate, an install or an execute. Relative
// references without an xml:base are resolved against the URL base, unless that is empty.
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
		x.url = resolveReference(c, x.text, base)
		a.references = append(a.references, x)
	}
}

// resolveReference returns the URL of a reference in e. A relative reference is resolved against the xml:base
// of e and of the elements around it, and then against base. The result is empty if it is still relative.
func resolveReference(e *xmltree.Element, text, base string) string {
	u, err := url.Parse(text)
	for ; err == nil && !u.IsAbs() && e != nil; e = e.Parent {
		if b, given := e.Attr(xmlSpace, "base"); given {
			u, err = resolveAgainst(b, u)
		}
	}
	if err == nil && !u.IsAbs() && base != "" {
		u, err = resolveAgainst(base, u)
	}
	if err != nil || !u.IsAbs() {
		return ""
	}
	return u.String()
}

var errLongBase = errors.New("the base is too long")

func resolveAgainst(base string, u *url.URL) (*url.URL, error) {
	if len(base) > maxBase {
		return nil, errLongBase
	}
	b, err := url.Parse(strings.TrimSpace(base))
	if err != nil {
		return nil, err
	}
	return b.ResolveReference(u), nil
}

// refersTo reports whether the text refers to the archive: it is empty, the same text, or the end of the
// archive's text after a slash.
func refersTo(text, archive string) bool {
	return text == "" || text == archive || !strings.Contains(text, ":") && strings.HasSuffix(archive, "/"+strings.TrimPrefix(text, "./"))
}

// artifactTemplateOf returns the ArtifactTemplate that a step names. It returns nil if the step names none, or
// an unknown one. If the template is unknown or has a mistake, it sets r.failed.
func (r *serviceReader) artifactTemplateOf(e *xmltree.Element) *artifact {
	id, given := ownAttribute(e, "artifact")
	if !given {
		return nil
	}
	t := r.artifactTemplate(id)
	switch {
	case t == nil:
		r.wrong(place{e, "artifact"}, "use the id of an ArtifactTemplate in the rspec element", "node %.80q uses the artifact %.80q, but there is no such ArtifactTemplate", r.n.ClientID, id)
	case t.failed:
		r.failed = true
	}
	return t
}
