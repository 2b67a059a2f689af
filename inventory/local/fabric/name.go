package fabric

import (
	"crypto/sha256"
	"encoding/base32"
	"net"
	"strings"
)

// deviceName is what a device of a link is called: its kind and 65 bits of a
// hash, for 15 characters are all that the kernel takes.
func deviceName(kind, link, end string) string {
	h := sha256.Sum256([]byte(link + "\x00" + end))
	return kind + strings.ToLower(base32.StdEncoding.EncodeToString(h[:])[:13])
}

// localMAC is the address of a device of the fabric, the same whenever it is made.
func localMAC(name string) net.HardwareAddr {
	h := sha256.Sum256([]byte(name))
	return append(net.HardwareAddr{0x06}, h[:5]...)
}
