package fabric

import (
	"crypto/sha256"
	"encoding/base32"
	"net"
	"strings"
)

// deviceName returns the letter kind, and 65 bits of a hash in 13 characters. The kernel
// allows names of at most 15 characters.
func deviceName(kind, link, end string) string {
	h := sha256.Sum256([]byte(link + "\x00" + end))
	return kind + strings.ToLower(base32.StdEncoding.EncodeToString(h[:])[:13])
}

// localMAC always returns the same address for the same name.
func localMAC(name string) net.HardwareAddr {
	h := sha256.Sum256([]byte(name))
	return append(net.HardwareAddr{0x06}, h[:5]...)
}
