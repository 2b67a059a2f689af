package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"patchbay/inventory/provider"
)

// linkProperties are the requested properties of one direction of a link; 0 means none.
type linkProperties struct {
	capacity int64   // kbit/s
	latency  float64 // ms
}

// pair is a direction of a link, by the letters of its nodes: "ab" is from a to b.
type pair string

// testLink is a link of a test.
type testLink struct {
	name  string
	nodes string // a letter each
	asked map[pair]linkProperties
}

// between returns a link between a and b with the properties of both directions.
func between(name string, there, back linkProperties) testLink {
	return testLink{name, "ab", map[pair]linkProperties{"ab": there, "ba": back}}
}

// linkSite is a testbed with linked nodes, each named by a letter.
type linkSite struct {
	*testSite
	links []testLink
	slice string
	first int // the number of the node a
}

// join creates the nodes of the links, in one slice. The nodes have numbers from first on.
func (b *testSite) join(t testing.TB, slice string, first int, links []testLink) *linkSite {
	t.Helper()
	s := &linkSite{testSite: b, links: links, slice: "urn:publicid:IDN+example.org+slice+" + slice, first: first}
	s.makeNodes(t)
	return s
}

func (s *linkSite) letters() []string {
	var all []string
	for _, l := range s.links {
		all = append(all, strings.Split(l.nodes, "")...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *linkSite) id(letter string) string { return nodeID(s.first + int(letter[0]-'a')) }

// address is that of a node on one of the links.
func (s *linkSite) address(letter, link string) string {
	i := slices.IndexFunc(s.links, func(l testLink) bool { return l.name == link })
	return fmt.Sprintf("10.7.%d.%d", i, int(letter[0]-'a')+1)
}

// node returns the attributes that the manager would request.
func (s *linkSite) node(letter string) provider.Resource {
	interfaces := []string{}
	for _, l := range s.links {
		if !strings.Contains(l.nodes, letter) {
			continue
		}
		item := map[string]any{
			"client_id": letter + ":" + l.name, "link": l.name, "slice": s.slice, "addresses": []string{s.address(letter, l.name) + "/24"},
		}
		var properties []map[string]any
		for _, to := range strings.Split(l.nodes, "") {
			if a := l.asked[pair(letter+to)]; a != (linkProperties{}) {
				properties = append(properties, map[string]any{
					"to": []string{to + ":" + l.name}, "capacity": a.capacity, "latency": a.latency,
				})
			}
		}
		if properties != nil {
			item["properties"] = properties
		}
		text, err := json.Marshal(item)
		if err != nil {
			s.t.Fatal(err)
		}
		interfaces = append(interfaces, string(text))
	}
	return node("localhost", provider.Resource{
		"power": "on", "users": []string{}, "slice_urn": s.slice, "client_id": letter, "hostname": letter + ".example.org", "interfaces": interfaces,
	})
}

func (s *linkSite) makeNodes(t testing.TB) {
	t.Helper()
	var updates []provider.Update
	for _, letter := range s.letters() {
		updates = append(updates, provider.Update{Name: s.id(letter), Is: provider.Resource{"ensure": provider.Absent}, Should: s.node(letter)})
	}
	changes, err := s.provider.Set(t.Context(), updates, false)
	for _, c := range changes {
		if c.Err != nil {
			err = c.Err
		}
	}
	if err != nil {
		t.Fatalf("set: %v", err)
	}
	for _, letter := range s.letters() {
		s.await(t, s.id(letter), provider.StateReady)
	}
}

// item is the report of the testbed about a node's interface.
func (s *linkSite) item(t testing.TB, letter, link string) (i linkItem) {
	t.Helper()
	for _, text := range getNode(t, s.provider, s.id(letter)).List("interfaces") {
		if err := json.Unmarshal([]byte(text), &i); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if i.Link == link {
			return i
		}
	}
	t.Fatalf("node %s has no interface at %s", letter, link)
	return linkItem{}
}

type linkItem struct {
	Link    string `json:"link"`
	RxBytes int64  `json:"rx_bytes"`
	Dropped int64  `json:"dropped"`
}
