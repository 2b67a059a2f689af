package policy

import (
	"fmt"
	"path/filepath"

	"patchbay/schemas/yamlfile"
)

// Limits of a policy file. A larger file is probably a mistake.
const (
	maxFile     = 4 << 20  // bytes of the policy
	maxAccepted = 64 << 20 // bytes of one list of users who have accepted terms
	maxRules    = 10_000
	maxPatterns = 1_000     // in one list
	maxNamed    = 2_000_000 // components in all ranges together
	maxText     = 500       // bytes of a text for experimenters
	maxRemarks  = 100
)

// Site holds the names that rules may use.
type Site struct {
	// Components are the names of components, in the order of the inventory.
	Components []string
	// SliverTypes are the names of sliver types.
	SliverTypes []string
	// Cores are the SliverTypes that take cores, Disk the SliverTypes that take disk.
	Cores, Disk []string
}

// Load reads a policy file and the lists that it names. It fails with an error of the file system
// or a *yamlfile.Error.
func Load(file string, site Site) (*Rules, error) {
	text, err := yamlfile.Load(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the policy: %w", err)
	}
	return Parse(text, file, site)
}

// Parse does what Load does, but takes the content of the policy file.
func Parse(text []byte, file string, site Site) (*Rules, error) {
	r := reader{Reader: yamlfile.Reader{File: file}, site: site, indexes: make(map[string]int32, len(site.Components))}
	for i, name := range site.Components {
		r.indexes[name] = int32(i)
	}
	rules := &Rules{file: file, files: []string{file}}
	r.policy(text, rules)
	if err := r.Err(); err != nil {
		return nil, err
	}
	rules.addRemarks(site)
	return rules, nil
}

func resolvePath(file, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(file), name)
}
