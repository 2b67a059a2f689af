package main

import (
	"strings"
	"testing"

	"patchbay/inventory/local"
)

func TestLinksAreListedTogether(t *testing.T) {
	const slice = "urn:publicid:IDN+example.org+slice+one"
	var out strings.Builder
	if err := printLinks(&out, []local.ListedLink{
		{SliceURN: slice, Link: "slow", ClientID: "b", Interface: "eth1", Addresses: []string{"10.0.1.2/24", "fd00::2/64"}, Emulator: "tbf+relay", Asked: "1000 kbit/s 10 ms to a:1",
			Counters: &local.Counters{RxPackets: 10, RxBytes: 15_000_000, TxPackets: 1, TxBytes: 60, Dropped: 3}},
		{SliceURN: slice, Link: "lan\x1b[2J", SharedVLAN: "office", ClientID: "b", Interface: "eth2", Emulator: "bridge"},
		{SliceURN: slice, ClientID: "a", Interface: "eth3"},
		{SliceURN: slice, Link: "slow", ClientID: "a", Interface: "eth1"},
	}); err != nil {
		t.Fatal(err)
	}
	want := `
SLICE  LINK              NODE  INTERFACE  ADDRESS                 MADE BY    ASKED OF WHAT LEAVES      IN            OUT         DROPPED
one    -                 a     eth3       -                       -          -                         -             -           -
one    lan?[2J (office)  b     eth2       -                       bridge     -                         -             -           -
one    slow              a     eth1       -                       -          -                         -             -           -
one    slow              b     eth1       10.0.1.2/24,fd00::2/64  tbf+relay  1000 kbit/s 10 ms to a:1  10 (15.0 MB)  1 (0.0 MB)  3
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("listed is%swant%s", got, want)
	}
	out.Reset()
	if err := printLinks(&out, nil); err != nil || out.String() != "No node has an interface for links.\n" {
		t.Errorf("without links: %q, %v", out.String(), err)
	}
}
