package rspec

import (
	"fmt"
	"strings"
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
