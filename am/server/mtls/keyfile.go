package mtls

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

const maxPEM = 1 << 20

// readKey fails if the file's mode gives other users any right, or the group more than the
// right to read.
func readKey(file string) ([]byte, error) {
	return readPEM(file, func(mode os.FileMode) error {
		if mode.Perm()&0o037 == 0 {
			return nil
		}
		return fmt.Errorf("its mode %#o lets other users read the key: run chmod 0600 %s (or 0640)", mode.Perm(), file)
	})
}

func readCertificates(file string) ([]byte, error) {
	return readPEM(file, func(os.FileMode) error { return nil })
}

// readPEM fails for a file that is not regular. It checks the mode of the open file,
// because another file may appear at its path at any time.
func readPEM(file string, checkMode func(os.FileMode) error) ([]byte, error) {
	// A FIFO must not block the start: it opens at once and is then refused.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", file)
	}
	if err := checkMode(info.Mode()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPEM {
		return nil, fmt.Errorf("%s: larger than %d bytes", file, maxPEM)
	}
	return text, nil
}
