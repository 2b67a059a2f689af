package radl

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/match"
)

var isFileSystem = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`).MatchString

// diskFeatures are those that have a place in a request.
var diskFeatures = []string{"size", "mount_path", "fstype", "device", "image.url", "image.name", "applications"}

// maxDisks limits the disks of one system.
const maxDisks = 32

// addDisks adds the disks with the numbers in indexes.
func (c *compiler) addDisks(s *system, indexes map[int]bool) {
	if len(indexes) > maxDisks {
		c.refuse(rspec.TooBig, s.block.Place, "use fewer, larger ones", "system %.80q has more than %d disks", s.block.ID, maxDisks)
		return
	}
	for _, index := range slices.Sorted(maps.Keys(indexes)) {
		b := s.block
		prefix := fmt.Sprintf("disk.%d.", index)
		step := generate.Step{
			Kind: generate.Disk, Name: fmt.Sprintf("disk %d", index),
			Path: b.text(prefix + "mount_path"), FileSystem: strings.ToLower(b.text(prefix + "fstype")),
		}
		at := b.Place
		for i := range b.Features {
			f := &b.Features[i]
			if n, name, ok := numbered(f.Name, "disk"); ok && n == index {
				at = f.Place
				if (name == "image.url" || name == "image.name") && step.Image == "" && f.Value.String() != "" {
					step.Image = c.imagesOf(f)[0]
				}
				if !slices.Contains(diskFeatures, name) && f.Value.String() != "" {
					s.node.Origin.Features = append(s.node.Origin.Features, generate.Feature{Name: f.Name, Value: carriedText(f)})
				}
			}
		}
		if f, ok := b.find(prefix + "size"); ok {
			step.Size = f.Value.String()
		}
		if !c.checkDisk(s, &step, index, at) {
			continue
		}
		if device := b.text(prefix + "device"); strings.HasPrefix(device, "/") {
			c.warn(at, "install the files by a recipe", "disk %d: %.80q is no folder of the host here; the node gets an empty disk of its own", index, device)
		} else if isWord(device) {
			step.Device = device
		}
		s.node.Steps = append(s.node.Steps, step)
	}
}

// checkDisk completes a disk, and reports whether nodes can have it.
func (c *compiler) checkDisk(s *system, step *generate.Step, index int, at Place) bool {
	if step.Path == "" && step.FileSystem != "swap" {
		step.Path = fmt.Sprintf("/mnt/disk%d", index)
		s.comments = append(s.comments, fmt.Sprintf("disk %d: it has no mount_path, so it is mounted at %s", index, step.Path))
	}
	size, err := match.SizeOf(step.Size)
	switch {
	case step.FileSystem == "swap":
		c.refuse(rspec.Unsupported, at, "leave the disk out, and ask for more memory.size instead; or choose another fstype, and make a swap file there by a recipe", "disk %d: fstype = 'swap' is not possible: a node mounts its disks as file systems", index)
	case step.Size == "" && step.Image != "":
		c.refuse(rspec.Unsupported, at, fmt.Sprintf("add disk.%d.size = 10G, or more if the image is larger", index), "disk %d has an image, but no size, and the size of the image is not known here", index)
	case step.Size == "":
		c.refuse(rspec.BadArgs, at, fmt.Sprintf("add disk.%d.size", index), "disk %d has no size", index)
	case err != nil || size == 0:
		c.refuse(rspec.BadArgs, at, "write a size such as 10G", "disk %d has the size %.40q", index, step.Size)
	case !strings.HasPrefix(step.Path, "/") || strings.Trim(step.Path, "/") == "" || !isWord(step.Path):
		c.refuse(rspec.BadArgs, at, "use an absolute path such as /data", "disk %d has the mount_path %.80q", index, step.Path)
	case step.FileSystem != "" && !isFileSystem(step.FileSystem):
		c.refuse(rspec.BadArgs, at, "name a type of file system, such as ext4", "disk %d has the fstype %.40q", index, step.FileSystem)
	default:
		return true
	}
	return false
}
