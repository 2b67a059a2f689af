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

// Host is what LocalText needs to know of the host whose containers are to be
// offered.
type Host struct {
	// Name is the component's name.
	Name string
	// OSVersion and OSName are VERSION_ID and PRETTY_NAME of its os-release.
	OSVersion, OSName string
	// Cores counts its processors.
	Cores int
	// Memory is its memory and Disk what is free for nodes, in bytes; unknown
	// where not above zero.
	Memory, Disk int64
	// Outbound reports whether nodes reach the network outside.
	Outbound bool
}

// What one container takes, in MiB; the same stands in local.yaml.
const (
	containerMemory = 512
	containerDisk   = 4 << 10
)

// Slots is how many containers a new site offers of the host.
func (h Host) Slots() int { return 50 * max(h.Cores, 1) }

// Share is how much disk of the host one user of a new site may have, in bytes:
// three quarters of what is free, which one alone does not fill, but ten
// containers' where that is more.
func (h Host) Share() int64 { return max(h.Disk/4*3, 10*containerDisk<<20) }

// ShareNodes is how many nodes one user of a new site may have: half of the places,
// as far as containers of the usual size have room in Share.
func (h Host) ShareNodes() int { return min(h.Slots()/2, int(h.Share()/(containerDisk<<20))) }

// LocalText is the inventory.yaml of a new site whose nodes are containers of
// the host, with comments that explain every key.
func LocalText(authority string, h Host) []byte {
	const mib = 1 << 20
	slots := h.Slots()
	memory, disk := 4*h.Memory/mib, 4*h.Disk/mib
	if memory <= 0 { // let the slots decide
		memory = int64(slots) * containerMemory
	}
	if disk <= 0 {
		disk = int64(slots) * containerDisk
	}
	outbound := No
	if h.Outbound {
		outbound = Yes
	}
	values := map[string]any{
		"Outbound":  outbound,
		"Authority": authority, "Name": quoted(h.Name), "Version": quoted(h.OSVersion), "OS": quoted(h.OSName),
		"Slots": slots, "Memory": size(max(memory, containerMemory)), "Disk": size(max(disk, containerDisk)),
	}
	var b bytes.Buffer
	if err := template.Must(template.New("").Delims("[[", "]]").Parse(local)).Execute(&b, values); err != nil {
		panic(err) // the template is ours
	}
	return b.Bytes()
}

// quoted is a YAML string of what can be printed in s, nothing if that is nothing.
func quoted(s string) string {
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

// size writes MiB as it is read, in the largest unit that drops little.
func size(mib int64) string {
	if mib >= 10<<10 {
		return fmt.Sprintf("%dG", mib>>10)
	}
	return fmt.Sprintf("%dM", mib)
}
