package radl_test

import (
	"testing"

	"patchbay/rspec/radl"
)

// TestDifferences shows where Parse differs from the reference implementation on purpose. The column
// reference says what that implementation is known to do, and reason why Parse does not.
func TestDifferences(t *testing.T) {
	for _, tt := range []struct {
		text      string
		accepted  bool
		reference string
		reason    string
	}{
		{"system s (cpu.count >= -1)", false, "drops the sign silently", "a dropped character changes the meaning"},
		{"system s (cpu.count => 2)", true, "refuses =>", "the tables of the language write it"},
		{`system s (disk.0.os.name = "linux")`, true, "refuses double quotes", "the role example of the language has them"},
		{"", true, "fails on an empty document", "an empty document is valid"},
		{"# only a comment", true, "fails on comments only", "it is an empty document"},
		{"system s ()\ndescription d ()", true, "wants the description first", "sentences have any order"},
		{"system s ()\ndeploy s 1.5", false, "accepts a fraction of a node", "nodes are whole"},
		{"system s (cpu.count > 1 and cpu.count < 2)", false, "reads strict bounds as bounds", "no whole number is between them"},
		{"system s (cpu.arch = 'i686')", true, "refuses i686, which the language lists", "the language wins"},
		{"system s (disk.1.size = 1GB)", true, "refuses a document without disk.0", "disk.0 can be implicit"},
		{"network n (outports = '0')", false, "accepts port 0", "no node can listen there"},
		{"network n (outports = '105986-5986')", false, "accepts port 105986", "ports end at 65535"},
		{"network n (outports = '10:1')", false, "accepts a range that ends before it begins", "it has no ports"},
		{"network n (outports = '1:10-20')", false, "accepts a range and a local port", "it is unknown which port is meant"},
		{"contextualize (system s configure c step 1 with Ansible)", true, "refuses step together with with", "the language shows both"},
		{"system s (disk.0.applications contains (name='x', version='1'))", true, "refuses a comma", "the wording of the language has commas"},
	} {
		d, problems := radl.Parse([]byte(tt.text), nil)
		if (d != nil) != tt.accepted {
			t.Errorf("%q: accepted %v, want %v, since the reference %s, but %s: %v", tt.text, d != nil, tt.accepted, tt.reference, tt.reason, problems)
		}
	}
}

// TestIntervals compares the features that remain of several on one number.
func TestIntervals(t *testing.T) {
	for _, tt := range []struct{ features, want string }{
		{"cpu.count >= 1 and cpu.count >= 5 and cpu.count >= 0", "cpu.count >= 5"},
		{"cpu.count = 1 and cpu.count >= 0", "cpu.count = 1"},
		{"cpu.count >= 0 and cpu.count = 1", "cpu.count = 1"},
		{"cpu.count >= 5 and cpu.count <= 5", "cpu.count = 5"},
		{"cpu.count >= 1 and cpu.count > 1", "cpu.count > 1"},
		{"cpu.count > 1 and cpu.count >= 1 and cpu.count < 9 and cpu.count <= 9", "cpu.count > 1 and cpu.count < 9"},
		{"memory.size >= 1G and memory.size >= 512M and memory.size <= 4G", "memory.size >= 1G and memory.size <= 4G"},
		{"memory.size >= 1024 and memory.size >= 2K", "memory.size >= 2K"},
		{"disk.1.size >= 10 and disk.1.size <= 1G", "disk.1.size >= 10 and disk.1.size <= 1G"},
		{"disk.0.os.version >= '12.04' and disk.0.os.version >= '9' and disk.0.os.version < '24'", "disk.0.os.version >= '12.04' and disk.0.os.version < '24'"},
		{"disk.0.os.flavor = 'ubuntu' and disk.0.os.flavour = 'ubuntu'", "disk.0.os.flavour = 'ubuntu'"},
		{"disk.0.os.name = 'Linux' and disk.0.os.name = 'linux'", "disk.0.os.name = 'linux'"},
	} {
		d, problems := radl.Parse([]byte("system s ("+tt.features+")"), nil)
		want, _ := radl.Parse([]byte("system s ("+tt.want+")"), nil)
		if d == nil || string(d.Text()) != string(want.Text()) {
			t.Errorf("%s: want %s: %v", tt.features, tt.want, problems)
			continue
		}
		roundTrip(t, tt.features, d)
	}
}
