package rspec

import (
	"strings"
	"testing"
)

func TestCheckPorts(t *testing.T) {
	for _, tt := range []struct{ text, wrong string }{
		{"80", ""},
		{"8899/tcp", ""},
		{"8899/tcp,22/udp,7/icmp", ""},
		{"9000:9100/udp", ""},
		{"1:65535", ""},
		{"8080/tcp-8899/tcp", ""},
		{"8080/udp-8899", ""},
		{"8080-8899/udp", ""},
		{"0.0.0.0/24-8899", ""},
		{"10.0.0.0/8-8080/tcp-80/tcp,::/0-443", ""},
		{"", `"" has a port that is no number`},
		{"80,", `"" has a port that is no number`},
		{"80, 81", `" 81" has a port that is no number from 1 to 65535`},
		{"8899a-8899", `"8899a-8899" has a port`},
		{"99999", `"99999" has a port`},
		{"0", `"0" has a port`},
		{"+80", `"+80" has a port`},
		{"8899/tcp-8899/udp", "has two protocols"},
		{"80/sctp", "has a protocol other than tcp, udp and icmp"},
		{"80/", "has a protocol"},
		{"1:10-20", "has a range of ports and a local port"},
		{"20-1:10", "has a range of ports and a local port"},
		{"10:1", "ends before it begins"},
		{"10:", "has a port that is no number"},
		{"1-2-3", "is not of the form"},
		{"10.0.0.0/8", "is not of the form"},
		{strings.Repeat("1-", 30_000), "is not of the form"},
	} {
		err := CheckPorts(tt.text)
		if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%.80s: %v, want %q", tt.text, err, tt.wrong)
		}
	}
}
