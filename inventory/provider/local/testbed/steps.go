package testbed

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"

	"patchbay/inventory/node/setup"
	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local/image"
	"patchbay/inventory/provider/local/node"
)

const stepsFile = "setup.json"

// parseSteps parses the attribute "setup". The error is for experimenters.
func parseSteps(items *[]string) ([]setup.Step, error) {
	if items == nil {
		return nil, nil
	}
	steps, err := steprunner.ParseSteps(*items)
	if err != nil {
		kind := provider.Failed
		if setup.IsUnsupported(err) {
			kind = provider.Unsupported
		}
		err = provider.Refuse(kind, "%v", err)
	}
	return steps, err
}

// checkCloudInit refuses user data for an image that cannot use them.
func (t *Testbed) checkCloudInit(steps []setup.Step, imageName string) error {
	i := slices.IndexFunc(steps, func(s setup.Step) bool { return s.Kind == setup.UserData })
	if i < 0 {
		return nil
	}
	usr := "/usr"
	if imageName != image.Host {
		_, files, err := t.images.Find(t.ctx, imageName)
		if err != nil {
			return fmt.Errorf("cannot look for cloud-init in the image %s: %w", imageName, err)
		}
		if usr = files.Usr; usr == "" {
			usr = filepath.Join(files.Root, "usr")
		}
	}
	for _, folder := range []string{"bin", "sbin"} {
		if _, err := os.Lstat(filepath.Join(usr, folder, "cloud-init")); err == nil {
			return nil
		}
	}
	return provider.Refuse(provider.Unsupported, "step %d of the setup has user data, and the image %s has no cloud-init to use them; execute a script instead, or choose another image", i+1, imageName)
}

// disksOf returns the disks of a setup. It refuses those that this host has no space for now.
func (t *Testbed) disksOf(steps []setup.Step) (disks []node.Disk, err error) {
	const mib = 1 << 20
	size := int64(0)
	for i, s := range steps {
		if s.Kind != setup.Disk {
			continue
		}
		d := node.Disk{Path: path.Clean(s.InstallPath), Size: s.Size * mib}
		switch {
		case s.Size > node.MaxDisk/mib:
			return nil, provider.Refuse(provider.Full, "step %d of the setup has a disk of %d MiB, at most %d are possible", i+1, s.Size, int64(node.MaxDisk/mib))
		case slices.ContainsFunc(disks, func(o node.Disk) bool { return o.Path == d.Path }):
			return nil, provider.Refuse(provider.Failed, "step %d of the setup has a second disk at %s; choose another mount point", i+1, d.Path)
		case len(disks) == node.MaxDisks:
			return nil, provider.Refuse(provider.Full, "the setup has more than %d disks; use fewer, larger ones", node.MaxDisks)
		}
		disks = append(disks, d)
		size += d.Size
	}
	left, reserve, err := node.DiskLeft(t.o.State)
	if left = max(0, left-reserve); err == nil && size > left {
		return nil, provider.Refuse(provider.Full, "the disks of the setup have %d MiB, and the host has %d MiB left for nodes; ask for smaller disks", size/mib, left/mib)
	}
	return disks, nil
}

func (nc *nodeController) checkSameSteps(items *[]string) error {
	if items == nil {
		return nil
	}
	steps, err := parseSteps(items)
	if err != nil {
		return err
	}
	kept, err := nc.currentSteps()
	if err == nil && !reflect.DeepEqual(steps, kept) {
		err = provider.Refuse(provider.Failed, "the setup of a node cannot be changed; remove the node first")
	}
	return err
}

// hasSteps reports whether the node has a journal of steps.
func (nc *nodeController) hasSteps() bool {
	return nc.steps != nil && len(nc.steps.Journal().Steps) > 0
}

// readSteps returns the steps by their number, with those that the setup does not have any more.
func (nc *nodeController) readSteps() (steps []setup.Step, err error) {
	if nc.hasSteps() {
		err = readJSON(nc.dir(), stepsFile, &steps)
	}
	return steps, err
}

// currentSteps returns the steps of the setup, in its order.
func (nc *nodeController) currentSteps() (steps []setup.Step, err error) {
	all, err := nc.readSteps()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	for _, i := range nc.steps.Current() {
		if i >= len(all) {
			return nil, fmt.Errorf("the setup has %d steps, and its journal names step %d", len(all), i+1)
		}
		steps = append(steps, all[i])
	}
	return steps, nil
}
