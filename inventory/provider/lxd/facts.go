package lxd

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/am/file"
	"patchbay/inventory"
	"patchbay/schemas/yamlfile"
)

// releases are the versions of Debian, whose images state only the name of a release.
var releases = map[string]string{"buster": "10", "bullseye": "11", "bookworm": "12", "trixie": "13", "forky": "14"}

// updateFacts writes the file of facts anew if the cluster has other images than it states.
func (p *program) updateFacts(ctx context.Context) error {
	facts := inventory.Facts{Images: map[string][]string{}}
	for _, m := range p.Images {
		var i struct {
			Architecture string            `json:"architecture"`
			Properties   map[string]string `json:"properties"`
		}
		fingerprint, err := p.client.fingerprint(ctx, m)
		if err == nil {
			err = p.client.get(ctx, "images/"+fingerprint, nil, &i)
		}
		if err != nil {
			return err
		}
		items := []string{"disk.0.os.name=linux"}
		for feature, value := range map[string]string{
			"cpu.arch": i.Architecture, "disk.0.os.flavour": strings.ToLower(i.Properties["os"]), "disk.0.os.version": versionOf(i.Properties),
		} {
			if value != "" {
				items = append(items, feature+"="+value)
			}
		}
		slices.Sort(items)
		facts.Images[m.Name] = items
	}
	path := filepath.Join(p.folder.dir, p.folder.name+inventory.FactsSuffix)
	text := inventory.FactsText(facts)
	old, err := yamlfile.Load(path, 1<<20)
	if err == nil && bytes.Equal(old, text) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return file.Write(path, text, 0o644)
}

// versionOf returns the version of an image's system; "" if it is unknown.
func versionOf(properties map[string]string) string {
	for _, v := range []string{properties["version"], properties["release"], releases[strings.ToLower(properties["release"])]} {
		if v != "" && strings.Trim(v, "0123456789.") == "" {
			return v
		}
	}
	return ""
}
