package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// release holds the version, the date and the folders, which all packages share.
type release struct {
	version string    // of the program, by semantic versioning
	date    time.Time // of the commit
	source  string    // the checkout
	built   string    // the folder into which the Makefile puts programs, manual pages and completions
	dist    string    // the folder for the packages
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("package: ")
	var r release
	flag.StringVar(&r.version, "version", "", "version of the program")
	seconds := flag.Int64("date", 0, "time of the commit, in seconds since 1970")
	flag.StringVar(&r.source, "source", "../..", "folder of the checkout")
	flag.StringVar(&r.built, "built", "../../.cache/package", "folder with programs, manual pages and completions")
	flag.StringVar(&r.dist, "dist", "../../dist", "folder for the packages")
	flag.Parse()
	r.date = time.Unix(*seconds, 0).UTC()
	if err := write(r); err != nil {
		log.Fatal(err)
	}
}

// write writes all packages into r.dist. It writes the SBOM first, because the others contain
// it.
func write(r release) error {
	for _, write := range []func(release) error{sbom, debian, tarball, image, checksums} {
		if err := write(r); err != nil {
			return err
		}
	}
	return nil
}

// file returns the path of a file of this release in r.dist; suffix is the end of its name.
func (r release) file(suffix string) string {
	return filepath.Join(r.dist, fmt.Sprintf("patchbay-%s-linux-%s%s", r.version, runtime.GOARCH, suffix))
}

// checksums writes SHA256SUMS, which `sha256sum -c` reads.
func checksums(r release) error {
	files, err := os.ReadDir(r.dist)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(r.dist, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), f.Name())
		fmt.Printf("dist/%s  %.1f MB\n", f.Name(), float64(len(data))/1e6)
	}
	return os.WriteFile(filepath.Join(r.dist, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
