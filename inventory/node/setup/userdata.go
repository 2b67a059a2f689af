package setup

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"patchbay/am/file"
)

// cloudStages are the arguments of cloud-init at the boot of a machine, in order.
var cloudStages = [][]string{{"init", "--local"}, {"init"}, {"modules", "--mode=config"}, {"modules", "--mode=final"}}

// cloudSettings keep cloud-init from changing what belongs to the testbed: the network, the host
// name, the host keys and the locale. User data can still set another locale.
const cloudSettings = `# Written by Patchbay.
datasource_list: [NoCloud, None]
network: {config: disabled}
preserve_hostname: true
ssh_deletekeys: false
disable_root: false
locale: false
`

// seed passes user data to cloud-init, and runs its stages.
func (o *Assignment) seed(s *stepFiles, l *log) {
	program := findProgram(s.cloudInit...)
	if program == "" {
		s.finish(l.failure(exitNotFound, errors.New("the image of the node has no cloud-init, which user data need")))
		return
	}
	if err := o.writeSeed(s); err != nil {
		s.finish(l.failure(1, fmt.Errorf("the user data cannot be written: %w", err)))
		return
	}
	var commands []*exec.Cmd
	for _, args := range cloudStages {
		c := newCommand(root.environment(), "/")
		c.Path, c.Args = program, append([]string{"cloud-init"}, args...)
		commands = append(commands, c)
	}
	s.runCommands(l, false, commands...)
}

// writeSeed writes the files of cloud-init's data source NoCloud. cloud-init does what it does once
// for each instance again if the instance-id is another one, so that id has the attempt.
func (o *Assignment) writeSeed(s *stepFiles) error {
	data, err := dataContent(o.URL)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	meta := fmt.Sprintf("instance-id: patchbay-%d-%d-%x\nlocal-hostname: %q\n", s.n, o.Attempt, sha256.Sum256(data), host)
	for _, f := range []struct {
		path string
		text []byte
	}{
		{filepath.Join(s.etc, "cloud/cloud.cfg.d/99-patchbay.cfg"), []byte(cloudSettings)},
		{filepath.Join(s.cloud, "seed/nocloud/user-data"), data},
		{filepath.Join(s.cloud, "seed/nocloud/meta-data"), []byte(meta)},
	} {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return err
		}
		if err := file.Write(f.path, f.text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
