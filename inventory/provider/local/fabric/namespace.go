package fabric

import (
	"errors"
	"fmt"
	"os"
)

// configureNamespace configures the calling thread's network namespace: devices get no
// IPv6 addresses, the kernel forwards no packets, and bridged frames skip the firewall.
func configureNamespace() error {
	for _, s := range []struct {
		path, value string
		optional    bool
	}{
		{"ipv6/conf/all/disable_ipv6", "1", true},
		{"ipv6/conf/default/disable_ipv6", "1", true},
		{"ipv4/ip_forward", "0", false},
		{"bridge/bridge-nf-call-iptables", "0", true},
		{"bridge/bridge-nf-call-ip6tables", "0", true},
		{"bridge/bridge-nf-call-arptables", "0", true},
	} {
		err := os.WriteFile("/proc/sys/net/"+s.path, []byte(s.value), 0)
		if err != nil && !(s.optional && errors.Is(err, os.ErrNotExist)) {
			return fmt.Errorf("cannot configure a network namespace: %w", err)
		}
	}
	return nil
}
