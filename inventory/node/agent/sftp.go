package agent

import (
	"errors"
	"io"
	"os"

	"github.com/pkg/sftp"
)

type stdio struct {
	io.Reader
	io.WriteCloser
}

// ServeSFTP is the SFTP server that Command.SFTP starts in the node. It serves standard input
// and output, starts in the working folder and has only the rights of its account.
func ServeSFTP() error {
	// The option for a working folder is not set, since it would make the relative
	// targets of links absolute.
	s, err := sftp.NewServer(stdio{os.Stdin, os.Stdout})
	if err != nil {
		return err
	}
	if err := s.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
