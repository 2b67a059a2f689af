package testbed

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"patchbay/am/file"
	"patchbay/inventory"
	"patchbay/inventory/provider/local/image"
	"patchbay/inventory/provider/osinfo"
	"patchbay/schemas/yamlfile"
)

// factsPause is the interval at which the images are compared with the file of facts.
const factsPause = 5 * time.Second

// writeFacts keeps the file of facts up to date, until the testbed stops.
func (t *Testbed) writeFacts() {
	known := map[string][]string{} // by the key of an image, whose content never changes
	var failed string
	for t.o.Facts != "" && t.ctx.Err() == nil {
		err := t.updateFacts(known)
		if err != nil && err.Error() != failed {
			failed = err.Error()
			t.log.Warn("the manager does not learn what the images are", "error", err)
		}
		sleep(t.ctx, factsPause)
	}
}

// updateFacts writes the file with the rights of its folder's owner.
func (t *Testbed) updateFacts(known map[string][]string) error {
	facts, err := t.imageFacts(known)
	if err != nil {
		return err
	}
	text := inventory.FactsText(facts)
	return file.AsOwner(filepath.Dir(t.o.Facts), func() error {
		old, err := yamlfile.Load(t.o.Facts, 1<<20)
		if err == nil && bytes.Equal(old, text) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return file.Write(t.o.Facts, text, 0o644)
	})
}

// imageFacts returns what the images contain. known keeps the facts by the image's key; the host is read
// each time, since its packages change.
func (t *Testbed) imageFacts(known map[string][]string) (inventory.Facts, error) {
	names, err := t.images.Names()
	if err != nil {
		return inventory.Facts{}, err
	}
	facts := inventory.Facts{Images: map[string][]string{}}
	for _, name := range names {
		if name == image.Host {
			facts.Images[name] = osinfo.Read("/", "usr").Items() // nodes have no /usr/local of the host
			continue
		}
		key, i, err := t.images.Find(t.ctx, name)
		if err != nil {
			continue // removed meanwhile
		}
		if known[key] == nil {
			known[key] = osinfo.Read(i.Root, "usr", "usr/local").Items()
		}
		facts.Images[name] = known[key]
	}
	return facts, nil
}
