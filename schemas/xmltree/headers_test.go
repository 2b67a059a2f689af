package xmltree

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheCodeFitsTheHeadersOf2_12 compiles the C code with the const of libxml2 2.12 in its headers, and
// refuses incompatible pointer types as newer compilers do.
func TestTheCodeFitsTheHeadersOf2_12(t *testing.T) {
	flags, err := exec.Command("pkg-config", "--variable=includedir", "libxml-2.0").Output()
	if err != nil {
		t.Fatalf("pkg-config, without which nothing is built: %v", err)
	}
	from := filepath.Join(strings.TrimSpace(string(flags)), "libxml2", "libxml")
	to := filepath.Join(t.TempDir(), "libxml")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	change := func(name, pattern, with string) {
		path := filepath.Join(to, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, regexp.MustCompile(pattern).ReplaceAll(text, []byte(with)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change("xmlversion.h", `(#define LIBXML_VERSION) 20\d+`, "$1 21200")
	change("xmlerror.h", `(\(XMLCALL \*xmlStructuredErrorFunc\) *\(void \*userData,) xmlErrorPtr`, "$1 const xmlError *")
	sources, err := filepath.Glob("*.c")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	args := append([]string{"-fsyntax-only", "-Wall", "-Werror=incompatible-pointer-types", "-I", filepath.Dir(to)}, sources...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
