package rspec

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shaped is a link l between x, y and z with these children.
func shaped(children string) []byte {
	return request(`<node client_id="a"><interface client_id="x"/><interface client_id="y"/></node><node client_id="b"><interface client_id="z"/><interface client_id="elsewhere"/></node>
<link client_id="l"><interface_ref client_id="x"/><interface_ref client_id="y"/><interface_ref client_id="z"/>` + "\n" + children + `</link>`)
}

func property(attrs string) string { return `<property source_id="x" dest_id="y" ` + attrs + `/>` }

func TestPropertyIsRead(t *testing.T) {
	for _, tt := range []struct {
		rule, in string
		unit     LossUnit
		want     []Property
	}{
		{"all three", property(`capacity="1000" latency="2" packet_loss="5"`), Percent, []Property{{"x", "y", 1000, 2 * time.Millisecond, 0.05}}},
		{"a fraction", property(`packet_loss="0.05"`), Fraction, []Property{{"x", "y", 0, 0, 0.05}}},
		{"everything lost", property(`packet_loss="100"`), Percent, []Property{{"x", "y", 0, 0, 1}}},
		{"everything lost, as a fraction", property(`packet_loss="1"`), Fraction, []Property{{"x", "y", 0, 0, 1}}},
		{"parts of a millisecond", property(`latency="0.25"`), Percent, []Property{{"x", "y", 0, 250 * time.Microsecond, 0}}},
		{"part of a kbit is a whole one", property(`capacity="0.1"`), Percent, []Property{{"x", "y", 1, 0, 0}}},
		{"an exponent and blanks", property(`capacity=" 1e5 "`), Percent, []Property{{"x", "y", 100_000, 0, 0}}},
		{"100 Gbit/s", property(`capacity="100000000"`), Percent, []Property{{"x", "y", 100_000_000, 0, 0}}},
		{"asks for nothing", property(``), Percent, nil},
		{"empty is not asked", property(`capacity="" latency=" " packet_loss=""`), Percent, nil},
		{"0 is not asked", property(`capacity="0" latency="0.0" packet_loss="0"`), Percent, nil},
		{"what asks for nothing may name anything", `<property source_id="nobody"/><property/>`, Percent, nil},
		{"both directions", property(`capacity="1"`) + `<property source_id="y" dest_id="x" capacity="2"/>`, Percent, []Property{{"x", "y", 1, 0, 0}, {"y", "x", 2, 0, 0}}},
		{"the same said twice", property(`capacity="1"`) + property(`capacity="1.0"`), Percent, []Property{{"x", "y", 1, 0, 0}}},
		{"said in parts", property(`capacity="1"`) + property(`latency="2"`), Percent, []Property{{"x", "y", 1, 2 * time.Millisecond, 0}}},
		{"into the LAN", `<property source_id="x" dest_id="l" capacity="1"/>`, Percent, []Property{{"x", "", 1, 0, 0}}},
		{"out of the LAN", `<property source_id="l" dest_id="x" capacity="1"/>`, Percent, []Property{{"", "x", 1, 0, 0}}},
		{"of another namespace", `<property xmlns="urn:x" source_id="x" dest_id="y" capacity="?"/>`, Percent, nil},
	} {
		o := ours()
		o.PacketLoss = tt.unit
		r := mustParse(t, shaped(tt.in), o)
		if diff := cmp.Diff(tt.want, r.Links[0].Properties); diff != "" {
			t.Errorf("%s: %s", tt.rule, diff)
		}
	}
}

func TestPropertyIsRefused(t *testing.T) {
	for _, tt := range []struct {
		rule, in string // § stands where the problem is
		unit     LossUnit
		says     string
	}{
		{"a word", property(`§capacity="fast"`), Percent, "kbit/s"},
		{"with its unit", property(`§capacity="100Mbps"`), Percent, "kbit/s"},
		{"negative", property(`§capacity="-1"`), Percent, "kbit/s"},
		{"not a number", property(`§capacity="NaN"`), Percent, "kbit/s"},
		{"without end", property(`§capacity="Inf"`), Percent, "kbit/s"},
		{"infinity written out", property(`§latency="+infinity"`), Percent, "milliseconds"},
		{"too large for a number", property(`§capacity="1e999"`), Percent, "kbit/s"},
		{"absurd", property(`§capacity="1e13"`), Percent, "kbit/s"},
		{"hexadecimal", property(`§capacity="0x10"`), Percent, "kbit/s"},
		{"underscores", property(`§capacity="1_000"`), Percent, "kbit/s"},
		{"a decimal comma", property(`§latency="0,5"`), Percent, "milliseconds"},
		{"longer than an hour", property(`§latency="3600001"`), Percent, "milliseconds"},
		{"more than all", property(`§packet_loss="100.1"`), Percent, "per cent"},
		{"per cent for a fraction", property(`§packet_loss="5"`), Fraction, "does not read values above 1"},
		{"negative loss", property(`§packet_loss="-0.1"`), Fraction, "fraction"},
		{"to itself", `<property source_id="x" §dest_id="x" capacity="1"/>`, Percent, "itself"},
		{"from the LAN to the LAN", `<property source_id="l" §dest_id="l" capacity="1"/>`, Percent, "itself"},
		{"two capacities", property(`capacity="1"`) + property(`§capacity="2"`), Percent, "different capacity"},
		{"two latencies", property(`latency="1"`) + property(`capacity="1" §latency="2"`), Percent, "different latency"},
		{"two losses", property(`packet_loss="1"`) + property(`§packet_loss="2"`), Percent, "different packet_loss"},
		{"two capacities of the LAN", `<property source_id="l" dest_id="x" capacity="1"/><property source_id="l" dest_id="x" §capacity="2"/>`, Percent, "different capacity"},
	} {
		o := ours()
		o.PacketLoss = tt.unit
		in, places := marked(string(shaped(tt.in)))
		e := refusalOf(t, []byte(in), o)
		if len(e.Problems) != 1 || e.Kind != BadArgs || e.ClientID != "l" || e.Line != places[0][0] || e.Column != places[0][1] || !strings.Contains(e.Error(), tt.says) {
			t.Errorf("%s: got %d:%d %v, want %v %q", tt.rule, e.Line, e.Column, e, places, tt.says)
		}
	}
}

func TestUnitOfPacketLossIsRemarked(t *testing.T) {
	for _, tt := range []struct {
		unit    LossUnit
		loss    string
		says    string // "" if there is no remark
		instead string
	}{
		{Percent, "0.05", "per cent: 0.05 %", "write 5"},
		{Fraction, "0.05", "a fraction: 5 %", "write 0.0005"},
		{Percent, "0.999", "per cent", "write 99.9"},
		{Percent, "1", "", ""}, {Percent, "5", "", ""}, {Percent, "0", "", ""}, {Percent, "", "", ""}, {Fraction, "1", "", ""},
	} {
		o := ours()
		o.PacketLoss = tt.unit
		r := mustParse(t, shaped(property(`packet_loss="`+tt.loss+`"`)+`<property source_id="y" dest_id="x" packet_loss="`+tt.loss+`"/>`), o)
		if (len(r.Notices) > 0) != (tt.says != "") || len(r.Notices) > 1 {
			t.Errorf("%q: %v", tt.loss, r.Notices)
			continue
		}
		if len(r.Notices) == 1 && !(strings.Contains(r.Notices[0].Msg, tt.says) && strings.HasSuffix(r.Notices[0].Remedy, tt.instead) && r.Notices[0].Line == 3) {
			t.Errorf("%q: %+v", tt.loss, r.Notices[0])
		}
	}
}

// FuzzProperty checks that an accepted value is possible for a network.
func FuzzProperty(f *testing.F) {
	f.Add("100000", "10", "0.1", "x", "y")
	f.Add("1e12", "NaN", "-0", "l", "x")
	f.Add("", "Inf", "1e-400", "x", "l")
	f.Fuzz(func(t *testing.T, capacity, latency, loss, source, dest string) {
		for _, unit := range []LossUnit{Percent, Fraction} {
			o := ours()
			o.PacketLoss = unit
			in := fmt.Sprintf(`<property capacity="%s" latency="%s" packet_loss="%s" source_id="%s" dest_id="%s"/>`, escape(capacity), escape(latency), escape(loss), escape(source), escape(dest))
			r, _ := Check(shaped(in), o)
			if r == nil {
				continue
			}
			for _, p := range r.Links[0].Properties {
				if p.Capacity < 0 || p.Capacity > maxCapacity || p.Latency < 0 || p.Latency > time.Hour || !(p.Loss >= 0 && p.Loss <= 1) || math.Signbit(p.Loss) || p.Source == p.Dest {
					t.Fatalf("%s is %+v", in, p)
				}
			}
		}
	})
}

// Real requests have properties that clients have copied or forgotten.
func TestPropertiesOfOtherInterfacesAreCopiedWithARemark(t *testing.T) {
	for rule, in := range map[string]string{
		"source of another link": `<property §source_id="elsewhere" dest_id="y" capacity="1"/>`,
		"dest that is not there": `<property source_id="x" §dest_id="nobody" capacity="1"/>`,
		"without a source":       `§<property dest_id="y" capacity="1"/>`,
	} {
		in, places := marked(string(shaped(in)))
		r := mustParse(t, []byte(in), ours())
		if len(r.Links[0].Properties) != 0 || len(r.Notices) != 1 {
			t.Errorf("%s: got %v, %v", rule, r.Links[0].Properties, r.Notices)
			continue
		}
		says := "not an interface of the link"
		if rule == "without a source" {
			says = "has no source_id"
		}
		if n := r.Notices[0]; n.ClientID != "l" || n.Line != places[0][0] || n.Column != places[0][1] || !strings.Contains(n.String(), says) {
			t.Errorf("%s: got %d:%d %v, want %v", rule, n.Line, n.Column, n, places)
		}
	}
}
