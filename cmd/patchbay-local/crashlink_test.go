package main

import (
	"fmt"
	"slices"
	"strings"

	"patchbay/inventory/provider"
)

// crashLinks are the links of all nodes of a crash site: a plain one, and one that needs
// the vswitch on some hosts. The number selects the network.
var crashLinks = map[string]int{"lan": 1, "slow": 2}

func (w *desiredNode) interfaces() []string {
	item := func(link, more string) string {
		return fmt.Sprintf(`{"client_id":"%s:%s","link":%q,"slice":"urn:publicid:IDN+example.org+slice+crash","addresses":["%s/24"]%s}`, w.Client, link, link, w.address(link), more)
	}
	return []string{item("lan", ""), item("slow", `,"properties":[{"latency":1}]`)}
}

func (w *desiredNode) address(link string) string {
	return fmt.Sprintf("10.9.%d.%d", crashLinks[link], w.Place+1)
}

// unreachable pings all running nodes from one of them over all links, and returns those
// that do not answer.
func (s *crashSite) unreachable(wishes []*desiredNode) string {
	s.t.Helper()
	var from *desiredNode
	var to []string
	for _, w := range wishes {
		if w.Removed || !w.On {
			continue
		}
		if len(w.Users) > 0 {
			from = w
		}
		for link := range crashLinks {
			to = append(to, w.address(link))
		}
	}
	if from == nil {
		return ""
	}
	slices.Sort(to)
	if !slices.Contains(from.Users, "alice") {
		return "" // the test's client is alice
	}
	r, err := s.provider.Get(s.t.Context(), []string{from.Name})
	if err != nil || len(r[from.Name].Resource.List(provider.AttrLogin)) == 0 {
		return fmt.Sprintf("node %s has no login: %v", from.Name, err)
	}
	out, err := s.ssh(s.t, from.Name, fmt.Sprintf(`for at in %s; do timeout 5 bash -c "head -c 4 </dev/tcp/$at/22" >/dev/null || echo $at; done`, strings.Join(to, " ")))
	if err != nil {
		return fmt.Sprintf("node %s cannot say whom it reaches: %v", from.Name, err)
	}
	if out != "" {
		return fmt.Sprintf("node %s, a ready one, does not reach %q on its links", from.Name, strings.Fields(out))
	}
	return ""
}
