package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// findProgram is the absolute path of one of our own programs: beside this one,
// or else on the PATH.
func findProgram(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			beside := filepath.Join(filepath.Dir(self), name)
			if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return beside, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program (%s) nor on the PATH; build both with: make build", name, filepath.Dir(self))
	}
	return filepath.Abs(path)
}
