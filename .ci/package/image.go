package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	imagetar "github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	stateFolder   = "/var/lib/patchbay"
	containerUser = 10001 // user and group ID of the server in the container
	shell         = "/bin/busybox"
)

// image writes the container image, for `docker load` and `podman load`. The image contains
// the server, which can run simulated nodes; images based on it can add other providers. It
// contains a shell because providers are often shell scripts.
func image(r release) error {
	entries, err := tree(r, "static", false)
	if err != nil {
		return err
	}
	busybox, err := os.ReadFile(shell)
	if err != nil {
		return fmt.Errorf("cannot read the shell for the image; install the package busybox-static: %w", err)
	}
	entries = append(entries,
		entry{"/bin/sh", busybox, 0o755},
		entry{"/etc/passwd", fmt.Appendf(nil, "root:x:0:0:root:/root:/bin/sh\npatchbay:x:%d:%[1]d:Patchbay:%s:/bin/sh\n", containerUser, stateFolder), 0o644},
		entry{"/etc/group", fmt.Appendf(nil, "root:x:0:\npatchbay:x:%d:\n", containerUser), 0o644},
		entry{"/etc/nsswitch.conf", []byte("hosts: files dns\n"), 0o644},
		entry{stateFolder + "/", nil, 0o755},
		entry{"/tmp/", nil, 0o1777})
	var layer bytes.Buffer
	if err := archive(r, &layer, entries); err != nil {
		return err
	}
	l, err := imagetar.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return err
	}
	img, err := mutate.Append(empty.Image, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "make package"}})
	if err != nil {
		return err
	}
	c, err := img.ConfigFile()
	if err != nil {
		return err
	}
	c = c.DeepCopy()
	c.Created = v1.Time{Time: r.date}
	c.Architecture, c.OS = runtime.GOARCH, "linux"
	c.Config = v1.Config{
		User:         fmt.Sprintf("%d:%[1]d", containerUser),
		WorkingDir:   stateFolder,
		Entrypoint:   []string{"/usr/bin/patchbay"},
		Cmd:          []string{"serve", "--config", stateFolder},
		Env:          []string{"PATH=/usr/bin:/bin", "HOME=" + stateFolder, "PATCHBAY_CONFIG=" + stateFolder},
		ExposedPorts: map[string]struct{}{"8443/tcp": {}},
		Volumes:      map[string]struct{}{stateFolder: {}},
		Labels:       map[string]string{"org.opencontainers.image.title": "Patchbay", "org.opencontainers.image.version": r.version},
	}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		return err
	}
	tag, err := name.NewTag("patchbay:" + strings.ReplaceAll(r.version, "+", "-")) // a tag has no plus sign
	if err != nil {
		return err
	}
	return imagetar.WriteToFile(r.file("-image.tar"), tag, img)
}
