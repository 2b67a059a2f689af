package main

import (
	"strings"
	"testing"

	"patchbay/inventory/provider/local"
)

func TestListGroupsLinks(t *testing.T) {
	const slice = "urn:publicid:IDN+example.org+slice+one"
	var out strings.Builder
	if err := printLinks(&out, []local.ListedLink{
		{SliceURN: slice, Link: "slow", ClientID: "b", InterfaceID: "b:0", Interface: "eth1", Addresses: []string{"10.0.1.2/24", "fd00::2/64"}, Emulator: "tbf+vswitch", Properties: []local.ListedProperty{{To: []string{"a:1"}, Capacity: 1000, Latency: 10, PacketLoss: 1}},
			Counters: &local.Counters{RxPackets: 10, RxBytes: 15_000_000, TxPackets: 1, TxBytes: 60, Dropped: 3, Overruns: 1}},
		{SliceURN: slice, Link: "lan\x1b[2J", SharedVLAN: "office", ClientID: "b", Interface: "eth2", Emulator: "bridge"},
		{SliceURN: slice, ClientID: "a", Interface: "eth3"},
		{SliceURN: slice, Link: "slow", ClientID: "a", Interface: "eth1"},
	}); err != nil {
		t.Fatal(err)
	}
	want := `
SLICE  LINK              NODE  INTERFACE  DEVICE  ADDRESS                 EMULATOR     REQUESTED                            FROM NODE           TO NODE              DROPPED TO NODE  LOST BY OVERLOAD
one    -                 a     -          eth3    -                       -            -                                    -                   -                    -                -
one    lan?[2J (office)  b     -          eth2    -                       bridge       -                                    -                   -                    -                -
one    slow              a     -          eth1    -                       -            -                                    -                   -                    -                -
one    slow              b     b:0        eth1    10.0.1.2/24,fd00::2/64  tbf+vswitch  1000 kbit/s, 10 ms, 1 % lost to a:1  1 packet, 60 bytes  10 packets, 15.0 MB  3 packets        1 packet
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("listed is%swant%s", got, want)
	}
	out.Reset()
	if err := printLinks(&out, nil); err != nil || out.String() != "No node has an interface for links.\n" {
		t.Errorf("without links: %q, %v", out.String(), err)
	}
}

func TestFormatPropertiesIsShort(t *testing.T) {
	p := func(to ...string) local.ListedProperty { return local.ListedProperty{To: to, Latency: 2.5} }
	for _, tt := range []struct {
		want  string
		asked []local.ListedProperty
	}{
		{"", nil},
		{"2.5 ms", []local.ListedProperty{p()}},
		{"2.5 ms to a, b, c", []local.ListedProperty{p("a", "b", "c")}},
		{"2.5 ms to a, b, c and 2 more; 2.5 ms to ?[2J", []local.ListedProperty{p("a", "b", "c", "d", "e"), p("\x1b[2J")}},
		{"2.5 ms to a; 2.5 ms to b; 2.5 ms to c; 2 more (--json)", []local.ListedProperty{p("a"), p("b"), p("c"), p("d"), p("e")}},
	} {
		if got := formatProperties(tt.asked, 0); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if got := formatProperties(nil, 9); got != "9 more that the answer leaves out" {
		t.Errorf("%q", got)
	}
	if got := formatTraffic(1, 999) + "; " + formatTraffic(12, 1500); got != "1 packet, 999 bytes; 12 packets, 1.5 kB" {
		t.Errorf("counted are %s", got)
	}
}
