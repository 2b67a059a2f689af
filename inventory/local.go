package inventory

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed local.yaml
var local string

// Host describes the host of a new site whose nodes are containers.
type Host struct {
	// Name is the component's name.
	Name string
	// OSVersion and OSName are VERSION_ID and PRETTY_NAME in the host's os-release.
	OSVersion, OSName string
	// Features are what the host's system is, such as "cpu.arch=x86_64".
	Features []string
	// Cores is the number of the host's processors.
	Cores int
	// Memory is the host's memory, and Disk its free space for nodes, in bytes. A value
	// of 0 or less means unknown.
	Memory, Disk int64
}

// The needs of one container, in MiB; local.yaml repeats them.
const (
	containerMemory = 512
	containerDisk   = 4 << 10
)

// Slots returns the number of containers that a new site offers.
func (h Host) Slots() int { return 50 * max(h.Cores, 1) }

// DiskPerUser returns the disk space in bytes that one user of a new site may use. It is
// three quarters of the free space, so that one user cannot fill the disk. The minimum is
// the space of ten containers.
func (h Host) DiskPerUser() int64 { return max(h.Disk/4*3, 10*containerDisk<<20) }

// NodesPerUser returns the number of nodes that one user of a new site may have. It is
// half of the slots, but at most the number of containers that fit into DiskPerUser.
func (h Host) NodesPerUser() int { return min(h.Slots()/2, int(h.DiskPerUser()/(containerDisk<<20))) }

// LocalText returns the inventory.yaml of a new site whose nodes are containers of the
// host. The comments in the text explain every key.
func LocalText(authority string, h Host) []byte {
	const mib = 1 << 20
	slots := h.Slots()
	memory, disk := 4*h.Memory/mib, 4*h.Disk/mib
	if memory <= 0 { // unknown: only the slots limit the containers
		memory = int64(slots) * containerMemory
	}
	if disk <= 0 {
		disk = int64(slots) * containerDisk
	}
	cores, nodeMemory := "1", sizeText(containerMemory)
	if h.Cores > 1 {
		cores = fmt.Sprintf("1..%d", h.Cores)
	}
	if h.Memory/mib > containerMemory {
		nodeMemory += ".." + sizeText(h.Memory/mib)
	}
	values := map[string]any{
		"NodeCores": cores, "NodeMemory": nodeMemory,
		"Authority": authority, "Name": quoteYAML(h.Name), "Version": quoteYAML(h.OSVersion), "OS": quoteYAML(h.OSName),
		"Slots": slots, "Memory": sizeText(max(memory, containerMemory)), "Disk": sizeText(max(disk, containerDisk)),
	}
	var b bytes.Buffer
	if err := template.Must(template.New("").Delims("[[", "]]").Parse(local)).Execute(&b, values); err != nil {
		panic(err) // cannot happen: the template is embedded
	}
	return b.Bytes()
}

// quoteYAML returns the printable ASCII of s as a YAML string; "" if there is none.
func quoteYAML(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s))
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

func sizeText(mib int64) string {
	if mib >= 10<<10 {
		return fmt.Sprintf("%dG", mib>>10)
	}
	return fmt.Sprintf("%dM", mib)
}
