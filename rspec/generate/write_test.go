package generate_test

import (
	"flag"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/rspec"
	"patchbay/rspec/generate"
	"patchbay/rspec/match"
)

var update = flag.Bool("update", false, "write testdata/all.xml")

// all is a request with every field.
func all() *generate.Request {
	return &generate.Request{
		Language: "radl", Comments: []string{"two--dashes---and a\nline -"}, Features: []generate.Feature{{Name: "name", Value: `a "b" <c>`}, {Name: "empty"}},
		Deadline: 600, Ansible: "2.14",
		Nodes: []generate.Node{{
			ClientID: "front-0", Comments: []string{"image debian: the newest"}, SliverType: "raw-pc", DiskImage: "debian", HardwareType: "pc",
			Require: []match.Constraint{{Feature: "cpu.count", Op: match.AtLeast, Value: "2"}, {Feature: "cpu.arch", Op: match.Equal, Value: "x86_64"}},
			Prefer:  []match.Preference{{Weight: 10, Constraints: []match.Constraint{{Feature: "memory.size", Op: match.Greater, Value: "1G"}}}},
			Interfaces: []generate.Interface{{
				ClientID: "front-0:0", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("fd00::1/64")}, Public: true,
				DNSNames: []string{"front.example.org"},
			}, {ClientID: "front-0:1"}},
			Public: true, NAT: true, Parameters: []generate.Feature{{Name: "IM_APP_X_VERSION", Value: "1.2"}},
			Steps: []generate.Step{
				{Kind: generate.Script, Name: strings.Repeat("é", 41), Language: "ansible", Body: []byte("- hosts: all\n"), Files: []generate.File{{Path: "a.yml", Body: []byte("- debug:\n")}}},
				{Kind: generate.Script, Name: "join\tit", Stage: 2, Language: "sh", Body: []byte("echo"), AsUser: true, Relation: "wn-0", OnTarget: true, Parameters: []generate.Feature{{Name: "p"}}},
				{Kind: generate.Script, Name: "serve", Stage: 1, Body: []byte("#!/bin/sh\n"), Background: true, Operation: "start"},
				{Kind: generate.UserData, Name: "cloud-init", Body: []byte("#cloud-config\n")},
				{Kind: generate.Install, Name: "web", Stage: 1, URL: "https://example.org/web.tgz", Path: "/srv", Owners: true},
				{Kind: generate.Install, URL: "https://example.org/web.tgz", Path: "/srv"},
				{Kind: generate.Disk, Name: "disk.1", Size: "1G", Path: "/mnt/disk1", FileSystem: "ext4", Device: "hdc", Image: "https://example.org/i"},
			},
			Origin: generate.Origin{ID: "front", Features: []generate.Feature{{Name: "instance_name", Value: "f"}}},
		}, {ClientID: "wn-0", Origin: generate.Origin{ID: "wn"}, Interfaces: []generate.Interface{{ClientID: "wn-0:0"}}},
			{ClientID: "far-0", Manager: "urn:publicid:IDN+far.example.org+authority+cm", DiskImage: "urn:publicid:IDN+far.example.org+image+d"}},
		Links: []generate.Link{{
			ClientID: "net", Comments: []string{"a LAN"}, Interfaces: []string{"front-0:0", "wn-0:0"}, LAN: true, Join: true, Ports: "8080/tcp,22",
			Routes: []generate.Route{{To: netip.MustParsePrefix("0.0.0.0/0"), Via: "front-0"}}, Proxy: &generate.Proxy{User: "alice", Host: "p.example.org"},
			Range: netip.MustParsePrefix("10.0.0.0/24"), Origin: generate.Origin{ID: "net"},
		}},
	}
}

func TestWrite(t *testing.T) {
	const golden = "testdata/all.xml"
	got := all().Write()
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestWrittenRequestIsValid requires that the reader finds what was written, by our schemas too.
func TestWrittenRequestIsValid(t *testing.T) {
	in := all()
	in.Nodes = in.Nodes[:2]
	in.Nodes[0].Steps = in.Nodes[0].Steps[1:] // ansible is read elsewhere
	r, problems := rspec.Check(in.Write(), rspec.ReadOptions{CheckSchemas: true})
	if r == nil {
		t.Fatal(rspec.Lines(problems))
	}
	for _, f := range r.Findings {
		t.Error(f)
	}
	n := &r.Nodes[0]
	if len(n.Services.Steps) != len(in.Nodes[0].Steps) || len(n.Interfaces) != 2 || len(n.Interfaces[0].Addresses) != 2 || n.DiskImage != "debian" || !n.RoutableIP {
		t.Errorf("%+v", n)
	}
	if d := cmp.Diff(in.Nodes[0].Require, n.Require); d != "" {
		t.Error(d)
	}
	if len(r.Links) != 1 || len(r.Links[0].Interfaces) != 2 || r.SetupLimit.Seconds() != 600 {
		t.Errorf("%+v", r.Links)
	}
}

// TestLongStepNames requires that names of steps are cut between characters, without work for each
// character.
func TestLongStepNames(t *testing.T) {
	for _, tt := range []struct{ rule, name, want string }{
		{"as long as allowed", strings.Repeat("x", 80), strings.Repeat("x", 80)},
		{"one byte more", strings.Repeat("x", 81), strings.Repeat("x", 77) + "…"},
		{"characters of two bytes", strings.Repeat("é", 41), strings.Repeat("é", 38) + "…"},
		{"control characters", "a\tb\x7f", "a b"},
		{"long", strings.Repeat("é", 20_000), strings.Repeat("é", 38) + "…"},
	} {
		r := &generate.Request{Nodes: []generate.Node{{ClientID: "a", Steps: []generate.Step{{Kind: generate.Script, Name: tt.name}}}}}
		var text string
		allocations := testing.AllocsPerRun(1, func() { text = string(r.Write()) })
		if !strings.Contains(text, ` name="`+tt.want+`"`) || allocations > 100 {
			t.Errorf("%s: %g allocations, and not the name %q:\n%s", tt.rule, allocations, tt.want, text)
		}
	}
}
