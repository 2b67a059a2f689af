package agent

import (
	"errors"
	"io"
	"os"

	"github.com/pkg/sftp"
)

// stdio is standard input and output as one stream.
type stdio struct {
	io.Reader
	io.WriteCloser
}

// ServeSFTP is the SFTP server that Command.SFTP starts in the node: standard
// input and output, from the working folder on. It has no rights but those of
// its account.
func ServeSFTP() error {
	// The server is not told its folder: it would make what links lead to absolute.
	s, err := sftp.NewServer(stdio{os.Stdin, os.Stdout})
	if err != nil {
		return err
	}
	if err := s.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
