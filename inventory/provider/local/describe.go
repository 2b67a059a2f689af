package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/am/display"
	"patchbay/inventory/provider"
	"patchbay/schemas/yamlfile"
)

// hostImage is the image that is made of this host, image.Host.
const hostImage = "host"

// describeTime limits the time for the testbed's list of images.
const describeTime = 2 * time.Second

// describe writes the metadata, and what the settings mean for the site.
func (c *client) describe(out io.Writer) error {
	text, err := yaml.Marshal(map[string]any{"settings": c.describeSettings()})
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n%s", metadata(ownPath(), c.name), text)
	}
	return err
}

// describeSettings returns what the manager checks and shows about the testbed: its settings, or their
// mistakes, and the images of a testbed that runs.
func (c *client) describeSettings() (d provider.Settings) {
	path := filepath.Join(c.dir, c.name+".yaml")
	s, err := ReadSettings(path)
	if mistakes, ok := errors.AsType[*yamlfile.Error](err); ok {
		for _, p := range mistakes.Problems {
			d.Problems = append(d.Problems, provider.Problem{Line: p.Line, Message: p.Msg})
		}
		return d
	}
	if err != nil {
		d.Problems = []provider.Problem{{Message: err.Error()}}
		return d
	}
	d.Instance, d.Outbound, d.SharedVLANs, d.LoginPorts, d.HostImage = s.Instance, &s.Outbound, s.SharedVLANs, s.LoginPorts(), hostImage
	d.Help = fmt.Sprintf("%s doctor says whether this host can run nodes", display.ShellWord(ownPath()))
	settings, err := os.Stat(path)
	socket, err2 := os.Stat(c.socket(s.Instance))
	d.Outdated = err == nil && err2 == nil && !socket.ModTime().After(settings.ModTime())
	ctx, cancel := context.WithTimeout(context.Background(), describeTime)
	defer cancel()
	a, err := Call(ctx, c.socket(s.Instance), Request{Action: ActionList})
	if err == nil {
		var l List
		if json.Unmarshal(a.Output, &l) == nil {
			d.Images = l.Images
		}
	}
	return d
}
