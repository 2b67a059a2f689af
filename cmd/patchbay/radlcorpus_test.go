package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/site"
	"patchbay/am/testkit/require"
	"patchbay/inventory"
	"patchbay/rspec/radl"
)

// corpusHost is the host of the local sites in the table of outcomes.
var corpusHost = inventory.Host{Name: "host", OSVersion: "12", OSName: "Debian GNU/Linux 12 (bookworm)", Cores: 4, Memory: 16 << 30, Disk: 100 << 30}

// TestRADLCorpusFits compares testdata/radl-corpus.txt with the outcome of each RADL document of the
// corpus at new sites: a local one, two whose nodes reach the Internet, on Debian and on Ubuntu, and a
// simulated one.
// A document that leaves systems undeployed has a second row: with a node of each system.
func TestRADLCorpusFits(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(require.Shared(t, "corpus", "radl"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	documents := t.TempDir()
	var names []string
	add := func(name string, text []byte) {
		names = append(names, name)
		if err := os.WriteFile(filepath.Join(documents, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		name := filepath.Base(file)
		if ending := filepath.Ext(name); ending != ".radl" && ending != ".json" {
			continue
		}
		text := []byte(readFile(t, file))
		add(name, text)
		d, _ := radl.Parse(text, map[string]string{"CPUs": "2", "NumNodes": "3"})
		if d == nil {
			continue
		}
		deployed := len(d.Deploys)
		for i := range d.Systems {
			id := d.Systems[i].ID
			if !slices.ContainsFunc(d.Deploys, func(x radl.Deploy) bool { return x.System == id }) {
				d.Deploys = append(d.Deploys, radl.Deploy{System: id, Count: 1})
			}
		}
		if len(d.Deploys) > deployed {
			add("deployed "+name, d.Text())
		}
	}
	simulated := newSite(t)
	removeSimulatedDelays(t, simulated)
	sites := []struct{ name, dir string }{
		{"local", siteOnHost(t, "no", "debian", "12")},
		{"outbound", siteOnHost(t, "yes", "debian", "12")},
		{"ubuntu", siteOnHost(t, "yes", "ubuntu", "24.04")},
		{"simulated", simulated},
	}
	outcomes := map[string]map[string]string{} // by the name of the site and the document
	for _, x := range sites {
		args := []string{"check", "--config", x.dir, "--set", "CPUs=2", "--set", "NumNodes=3"}
		for _, name := range names {
			args = append(args, filepath.Join(documents, name))
		}
		_, out := runCommand(t, args...)
		outcomes[x.name] = outcomesOf(out, documents)
	}
	var table strings.Builder
	fits := map[string]int{}
	for _, name := range names {
		var groups []string // of sites with the same outcome
		bySites := map[string][]string{}
		for _, x := range sites {
			outcome := outcomes[x.name][name]
			if outcome == "fits" {
				kind, _, isDeployed := strings.Cut(name, " ")
				if !isDeployed {
					kind = "as written"
				}
				fits[kind+", "+x.name]++
			}
			if bySites[outcome] == nil {
				groups = append(groups, outcome)
			}
			bySites[outcome] = append(bySites[outcome], x.name)
		}
		fmt.Fprintf(&table, "%s\n", name)
		for _, outcome := range groups {
			if who := strings.Join(bySites[outcome], ", "); len(groups) > 1 {
				fmt.Fprintf(&table, "  %s: %s\n", who, outcome)
			} else {
				fmt.Fprintf(&table, "  %s\n", outcome)
			}
		}
	}
	for _, kind := range []string{"as written", "deployed"} {
		for _, x := range sites {
			fmt.Fprintf(&table, "%s, %s: %d fit\n", kind, x.name, fits[kind+", "+x.name])
		}
	}
	const file = "testdata/radl-corpus.txt"
	if *update {
		if err := os.WriteFile(file, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(readFile(t, file), table.String()); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// siteOnHost creates a site with the local testbed of a host.
func siteOnHost(t *testing.T, outbound, flavour, version string) (dir string) {
	t.Helper()
	dir, _ = initLocal(t, "--outbound", outbound)
	if err := os.WriteFile(filepath.Join(dir, site.InventoryName), inventory.LocalText("Testbed-of-Ours.example.org", corpusHost), 0o644); err != nil {
		t.Fatal(err)
	}
	facts := inventory.Facts{Images: map[string][]string{"host": {
		"cpu.arch=x86_64", "disk.0.os.name=linux", "disk.0.os.flavour=" + flavour, "disk.0.os.version=" + version, "software.ansible=2.14.18",
	}}}
	if err := os.WriteFile(filepath.Join(dir, "providers", "local"+inventory.FactsSuffix), inventory.FactsText(facts), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// outcomesOf returns what check printed for each file of a folder: "fits", or the first mistake.
func outcomesOf(out, folder string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(out) {
		severity, rest, _ := strings.Cut(strings.TrimSpace(line), folder+string(filepath.Separator))
		name, text, _ := strings.Cut(rest, ":")
		switch _, mistake, isMistake := strings.Cut(text, "error: "); {
		case strings.HasPrefix(severity, "ok"):
			all[name] = "fits"
		case all[name] != "":
		case strings.HasPrefix(severity, "error"):
			all[name] = strings.TrimSpace(text)
		case isMistake:
			all[name] = mistake
		}
	}
	return all
}
