package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are built on the host for the guest's PATH. The map's value is the setting of cgo
// that the Makefile uses for the program.
var programs = map[string]string{"patchbay": "CGO_ENABLED=1", "patchbay-local": "CGO_ENABLED=0"}

// writeContent writes the source tree, the programs and the compiled tests to the folder dir. It
// returns the commands that run the tests.
func writeContent(ctx context.Context, dir string, o options) (commands []string, err error) {
	top, err := output(ctx, "go", "env", "GOMOD")
	if err != nil {
		return nil, err
	}
	source := filepath.Dir(strings.TrimSpace(top))
	for _, name := range []string{"src", "bin", "state"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	names, err := output(ctx, "git", "-c", "safe.directory=*", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(source, name), filepath.Join(dir, "src", name)); err != nil {
			return nil, err
		}
	}
	build := func(cgo, out string, args ...string) error {
		c := exec.CommandContext(ctx, "go", args...)
		c.Dir, c.Env = source, append(os.Environ(), cgo)
		if text, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, text)
		}
		if _, err := os.Stat(out); err != nil {
			return fmt.Errorf("go %s created no file; the package may have no tests", strings.Join(args, " "))
		}
		return nil
	}
	for name, cgo := range programs {
		out := filepath.Join(dir, "bin", name)
		if err := build(cgo, out, "build", "-trimpath", "-buildvcs=false", "-o", out, "./cmd/"+name); err != nil {
			return nil, err
		}
	}
	for _, test := range o.tests {
		folder, pattern, _ := strings.Cut(test, "=")
		rel, err := filepath.Rel(source, abs(source, folder))
		if err != nil || !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("--test %s is not in the source tree", folder)
		}
		name := filepath.Base(rel) + ".test"
		out := filepath.Join(dir, "src", rel, name)
		if err := build("CGO_ENABLED=0", out, "test", "-c", "-o", out, "./"+rel); err != nil {
			return nil, err
		}
		command := fmt.Sprintf("cd /guest/src/%s && ./%s -test.v -test.timeout 20m", rel, name)
		if pattern != "" {
			command += " -test.run '" + pattern + "'"
		}
		commands = append(commands, command)
	}
	return commands, nil
}

// abs resolves a relative path from the working folder, or from the folder source if the working
// folder is unknown.
func abs(source, folder string) string {
	if path, err := filepath.Abs(folder); err == nil {
		return path
	}
	return filepath.Join(source, folder)
}

// copyFile copies a symbolic link as a link. It does nothing if the file does not exist.
func copyFile(source, destination string) error {
	i, err := os.Lstat(source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the file was removed, but is still in git's index
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(destination), 0o755); err != nil {
		return err
	}
	if i.Mode().Type() == fs.ModeSymlink {
		target, err := os.Readlink(source)
		if err != nil {
			return err
		}
		return os.Symlink(target, destination)
	}
	b, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(destination, b, i.Mode().Perm())
}

// makeDisk makes the disk in the file image from the folder dir. It returns the commands that run
// the tests in the guest.
func makeDisk(ctx context.Context, dir, image string, o options) ([]string, error) {
	commands, err := writeContent(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	if _, err := output(ctx, "mke2fs", "-q", "-t", "ext4", "-d", dir, image, "8G"); err != nil {
		os.Remove(image)
		return nil, err
	}
	return commands, nil
}
