package rspec

import (
	"fmt"
	"strings"
	"testing"
)

// wide is a request of n nodes in pairs, each pair with a link and its
// properties.
func wide(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<node client_id="node%d" exclusive="true"><sliver_type name="raw-pc"/><interface client_id="node%d:if0"><ip address="10.%d.%d.%d" netmask="255.255.255.0" type="ipv4"/></interface></node>`+"\n", i, i, i>>15&255, i>>7&255, 1+i&127)
	}
	for i := 0; i < n; i += 2 {
		fmt.Fprintf(&b, `<link client_id="link%d"><interface_ref client_id="node%d:if0"/><interface_ref client_id="node%d:if0"/><link_type name="lan"/>`+
			`<property source_id="node%d:if0" dest_id="node%d:if0" capacity="100000"/><property source_id="node%d:if0" dest_id="node%d:if0" capacity="100000"/></link>`+"\n", i, i, i+1, i, i+1, i+1, i)
	}
	return request(b.String())
}

// lan is a request of n nodes on one LAN, with a property for each.
func lan(n int) []byte {
	var b, link strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<node client_id="node%d"><interface client_id="node%d:if0"><ip address="10.%d.%d.%d" netmask="255.0.0.0"/></interface></node>`+"\n", i, i, i>>14&255, i>>7&127, 1+i&127)
		fmt.Fprintf(&link, `<interface_ref client_id="node%d:if0"/><property source_id="node%d:if0" dest_id="lan" capacity="%d" packet_loss="0.1"/>`+"\n", i, i, i)
	}
	return request(b.String() + `<link client_id="lan">` + link.String() + `</link>`)
}

// BenchmarkParseNetworks shows that the cost of a node does not grow with their number.
func BenchmarkParseNetworks(b *testing.B) {
	for _, shape := range []struct {
		name string
		make func(int) []byte
	}{{"pairs", wide}, {"lan", lan}} {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("%s-%d", shape.name, n), func(b *testing.B) {
				text := shape.make(n)
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					mustParse(b, text, ours())
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/node")
			})
		}
	}
}
