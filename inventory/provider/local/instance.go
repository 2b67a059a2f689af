package local

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"patchbay/schemas/yamlfile"
)

// readInstance returns the key instance of the file at path. It reads no other key, because the other keys
// of the file belong to another provider.
func readInstance(path string) (string, error) {
	file := filepath.Base(path)
	text, err := readSmallFile(path)
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %w", file, err)
	}
	r := yamlfile.Reader{File: file}
	doc := r.Document(text)
	if doc == nil {
		return "", r.Err()
	}
	var top struct{ Instance yaml.Node }
	if err := doc.Decode(&top); err != nil {
		return "", fmt.Errorf("%s: %s", file, firstLine(err))
	}
	switch n := &top.Instance; {
	case n.IsZero() || yamlfile.IsNull(n):
		return "", fmt.Errorf("%s has no line instance: NAME, with the name of a testbed; running here: %s", file, running(Folder))
	case n.Kind != yaml.ScalarNode || !IsInstance(n.Value):
		return "", fmt.Errorf("%s:%d: instance is %q and must be the name of a testbed; running here: %s", file, n.Line, yamlfile.Value(n), running(Folder))
	default:
		return n.Value, nil
	}
}

// running returns "none" if no testbed has a listening socket in the folder.
func running(folder string) string {
	sockets, _ := filepath.Glob(filepath.Join(folder, "*.sock"))
	var names []string
	for _, s := range sockets {
		c, err := net.Dial("unix", s)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			names = append(names, strings.TrimSuffix(filepath.Base(s), ".sock"))
		}
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
