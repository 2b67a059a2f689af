package cert

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"errors"
)

// Budget is how much checking of signatures is still done on somebody's behalf,
// counted in checks with an RSA key of 2048 bits, about 30 µs each. A nil Budget
// has no end. It is not safe for concurrent use.
type Budget struct{ left int }

// NewBudget makes a budget of so many checks.
func NewBudget(checks int) *Budget { return &Budget{checks} }

// ErrBudget says that a budget is used up.
var ErrBudget = errors.New("more signatures would have to be checked than are for one call; present fewer credentials, and with each only the certificates it needs")

// Take pays for one check with the key, and tells whether the budget held it.
func (b *Budget) Take(key any) bool {
	if b == nil {
		return true
	}
	b.left -= price(key)
	return b.left >= 0
}

// Spent tells whether nothing more can be paid from b.
func (b *Budget) Spent() bool { return b != nil && b.left <= 0 }

// price is measured with the standard library; it need not be exact.
func price(key any) int {
	switch k := key.(type) {
	case *rsa.PublicKey:
		n := min(k.N.BitLen(), MaxRSABits) / 2048
		return max(1, n*n)
	case *ecdsa.PublicKey:
		switch bits := k.Params().BitSize; {
		case bits > 384:
			return 48
		case bits > 256:
			return 16
		}
		return 2
	}
	return 1
}
