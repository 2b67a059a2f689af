package blueprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory"
	"patchbay/rspec"
	"patchbay/rspec/generate"
)

// Files travel in the request in pieces of at most maxInline bytes, and up to maxInPieces bytes.
const (
	maxInline   = 64 << 10
	maxInPieces = 1 << 20
)

const fetch = `set -e
if command -v curl >/dev/null; then curl -fsSL -o content "$url"
elif command -v wget >/dev/null; then wget -q -O content "$url"
else echo 'this node has neither curl nor wget, and cannot fetch' "$url" >&2; exit 1; fi
if [ -n "$sha256" ]; then echo "$sha256  content" | sha256sum -c -; fi
`

const join = `set -e
cat content.* >content
rm content.*
`

const unpack = `set -e
mkdir -p "$target"
tar -xf content -C "$target"
`

const load = `set -e
if [ "$(head -c 2 content)" = '#!' ]; then chmod +x content; exec ./content; fi
if command -v mysqld >/dev/null || command -v mariadbd >/dev/null; then mysql <content
elif ! command -v postgres >/dev/null && ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && command -v sqlite3 >/dev/null; then mkdir -p /var/lib/database; sqlite3 /var/lib/database/main.db <content
else su -s /bin/sh postgres -c 'psql -v ON_ERROR_STOP=1' <content; fi
`

const copyFile = `set -e
mkdir -p "$target"
cp content "$target/$file"
`

// content is the file of a component: in the request, or at a URL with its digest.
type content struct {
	body        []byte
	url, digest string
	isInline    bool
}

// addContent completes s, the step for the action a of the part p, with the component's file: as the script, or
// beside a script that unpacks, loads or copies it. It returns false if there is no file, or after a mistake.
func (c *compiler) addContent(p *part, a action, s *generate.Step) bool {
	f := c.contentOf(p)
	if f == nil {
		return false
	}
	if f.isInline && a.content != "run" && a.content != "load" {
		c.wrong(p.at, "name a file beside the blueprint", "the content of %.80q is a text in place of the name of a file", p.label)
		return false
	}
	script := "chmod +x content\n./content\n"
	switch a.content {
	case "unpack":
		script = unpack
	case "load":
		script = load
	case "copy":
		script = copyFile
		s.Parameters = append(s.Parameters, generate.Feature{Name: "file", Value: path.Base(p.attribute("content"))})
	}
	if f.url != "" {
		s.Parameters = append(s.Parameters, generate.Feature{Name: "url", Value: f.url}, generate.Feature{Name: "sha256", Value: f.digest})
		s.Body = []byte(fetch + script)
		return true
	}
	if len(f.body) > maxInline {
		s.Body, s.Files = []byte(join+script), pieces(f.body)
		return true
	}
	if a.content != "run" {
		s.Body, s.Files = []byte(script), []generate.File{{Path: "content", Body: f.body}}
		return true
	}
	if s.Body = f.body; bytes.HasPrefix(f.body, []byte("#!")) {
		s.Language = ""
	}
	if !utf8.Valid(f.body) || bytes.ContainsFunc(f.body, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\v\f\r", r) || r >= 0x7f && r < 0xa0 }) {
		c.wrong(p.at, "give a script", "the content of %.80q is no text", p.label)
		return false
	}
	return true
}

// pieces returns files of which the script join makes the file content.
func pieces(body []byte) (list []generate.File) {
	for piece := range slices.Chunk(body, maxInline) {
		list = append(list, generate.File{Path: fmt.Sprintf("content.%02d", len(list)), Body: piece})
	}
	return list
}

// contentOf returns the file of a component, which it reads once for each name. It returns nil if there is none, or
// after a mistake, which it reports once.
func (c *compiler) contentOf(p *part) *content {
	name, at := p.attribute("content"), p.at
	if v := p.value("content"); v != nil {
		at = v
		if v.kind == yaml.ScalarNode {
			name = v.text
		}
	}
	if f, known := c.contents[name]; known {
		return f
	}
	c.contents[name] = nil
	switch {
	case name == "":
		c.wrong(at, "add content: with a file or URL", "the component %.80q has no content", p.label)
		return nil
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		if c.o.Site != nil && c.o.Site.OutsideAccess == inventory.No {
			c.warn(at, "put the file beside the blueprint, and name it", "the content %.80q cannot be fetched, unless a node of the slice serves it: nodes here do not reach the Internet", name)
		}
		c.contents[name] = &content{url: name}
		return c.contents[name]
	case strings.HasPrefix(name, "#!"), strings.Contains(name, "\n"):
		if len(name) > maxInline {
			c.refuse(rspec.TooBig, at, "put it into a file", "the content of %.80q has more than %d bytes", p.label, maxInline)
		} else {
			c.contents[name] = &content{body: []byte(name), isInline: true}
		}
		return c.contents[name]
	case !fs.ValidPath(name) || name == ".":
		c.wrong(at, "name a file beside the blueprint or in its package, without ..", "the content %.80q is neither a relative path nor a URL", name)
		return nil
	case c.o.Files == nil:
		c.wrong(at, "send a ZIP package with heat.yaml, or give a URL", "the file %.80q is not available here", name)
		return nil
	}
	c.contents[name] = c.fileContent(at, name)
	return c.contents[name]
}

// fileContent reads a file beside the blueprint. It returns nil if it refuses or leaves out the file.
func (c *compiler) fileContent(at *value, name string) (found *content) {
	limit := int64(maxInPieces) // a package may contain more than the memory holds
	if c.o.ContentDir != "" {
		limit = maxUnpacked
	}
	body, err := readFile(c.o.Files, name, limit)
	switch {
	case errors.Is(err, errTooLarge) && c.o.ContentDir == "":
		c.refuse(rspec.TooBig, at, "use the options --content DIR and --content-url URL of compile", "the file %.80q has %d bytes, more than the %d that travel in a request", name, sizeOf(c.o.Files, name), maxInPieces)
	case errors.Is(err, errTooLarge):
		c.refuse(rspec.TooBig, at, "put it on a web server", "the file %.80q has more than %d bytes", name, maxUnpacked)
	case errors.Is(err, fs.ErrNotExist):
		remedy := "correct the name, which is relative to the blueprint"
		if strings.Contains(name, " ") {
			remedy += "; a script itself begins with #!/bin/sh"
		}
		c.wrong(at, remedy, "there is no file %.80q", name)
	case err != nil:
		c.wrong(at, "name a file that is beside the blueprint or in a folder below", "the file %.80q cannot be read: %.200v", name, err)
	case bytes.Contains(body, []byte("PRIVATE KEY-----")):
		c.warn(at, "give nodes their secrets after they were created", "the file %.80q has a private key, so it is left out", name)
	case len(body) == 0:
		c.wrong(at, "fill it", "the file %.80q is empty", name)
	case len(body) <= maxInline || c.o.ContentDir == "":
		found = &content{body: body}
	default:
		found = c.publish(at, name, body)
	}
	if found != nil && c.d.files == nil {
		c.request.Files = append(c.request.Files, generate.SourceFile{Name: name, Size: len(body)})
	}
	return found
}

// sizeOf returns the size that a file states, or 0 if it states none.
func sizeOf(files fs.FS, name string) int64 {
	i, err := fs.Stat(files, name)
	if err != nil {
		return 0
	}
	return i.Size()
}

// publish writes a large file into the folder of the content URL.
func (c *compiler) publish(at *value, name string, body []byte) *content {
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	if err := createOrCompare(filepath.Join(c.o.ContentDir, digest), body); err != nil {
		c.wrong(at, "name an existing folder that only you can write to", "the file %.80q cannot be published: %v", name, err)
		return nil
	}
	return &content{url: strings.TrimSuffix(c.o.ContentURL, "/") + "/" + digest, digest: digest}
}

// createOrCompare creates a file with the body, and follows no link. If the path exists already, it must be a file
// with the same content.
func createOrCompare(path string, body []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file; remove it", path)
		}
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, body) {
			return fmt.Errorf("%s has another content than its name says; remove it", path)
		}
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	return errors.Join(err, f.Close())
}
