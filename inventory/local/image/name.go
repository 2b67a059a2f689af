package image

import (
	"fmt"
	"strings"
)

// hashDigits of the hash in a key: 120 bits tell all contents apart.
const hashDigits = 30

// checkName says what is wrong with the name of an image.
func checkName(name string) error {
	ok := name != "" && len(name) <= 63 && name[0] != '.' && name[0] != '-'
	for i := 0; i < len(name) && ok; i++ {
		c := name[i]
		ok = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-'
	}
	if !ok {
		return fmt.Errorf("%.80q is no name of an image: up to 63 of a-z, 0-9, dot and hyphen, beginning with a letter or digit", name)
	}
	return nil
}

// isKeyOf tells whether key is NAME@HASH, which is safe as a file name.
func isKeyOf(key, name string) bool {
	hash, ok := strings.CutPrefix(key, name+"@")
	return ok && checkName(name) == nil && len(hash) == hashDigits && strings.Trim(hash, "0123456789abcdef") == ""
}
