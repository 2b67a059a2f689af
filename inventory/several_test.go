package inventory

import (
	"strings"
	"testing"
)

// TestChangesOfSeveralComponentsArePlural checks the plural of each text of Compare.
func TestChangesOfSeveralComponentsArePlural(t *testing.T) {
	double := strings.NewReplacer("{name: pc1,", "{names: pc1..pc3,", "{name: h1,", "{names: h1..h3,").Replace(compared)
	parse := func(pairs ...string) *Inventory {
		text := strings.NewReplacer(pairs...).Replace(double)
		if len(pairs) > 0 && text == double {
			t.Fatalf("%q is nowhere", pairs)
		}
		v, err := Parse([]byte(text), "inventory.yaml", "example.org")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	as := parse()
	for _, tt := range []struct {
		was, now *Inventory
		want     string
	}{
		{as, parse("names: pc1..pc3", "drained: true, names: pc1..pc3"), "components pc1..pc3: are drained; they accept no slivers"},
		{parse("names: pc1..pc3", "drained: true, names: pc1..pc3"), as, "components pc1..pc3: are no longer drained"},
		{as, parse("names: h1..h3", "names: v1..v3"), "components h1..h3: were removed; they are not advertised and accept no slivers"},
		{as, parse("exclusive: false", "exclusive: true", ", capacity: {slots: 4}", ""), "components h1..h3: were shared and are exclusive"},
		{parse("exclusive: false", "exclusive: true", ", capacity: {slots: 4}", ""), as, "components h1..h3: were exclusive and are shared"},
		{as, parse("capacity: 1G", "capacity: 2G"), "components pc1..pc3: their interfaces have changed"},
		{as, parse("slots: 4", "slots: 2"), "components h1..h3: their capacity was 4 slots and is 2 slots"},
	} {
		var got []string
		for _, c := range Compare(tt.was, tt.now) {
			got = append(got, c.String())
		}
		if !strings.Contains(strings.Join(got, "\n")+"\n", tt.want+"\n") {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
