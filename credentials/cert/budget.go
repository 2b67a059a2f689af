package cert

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"errors"
)

// Budget limits the signature checks for one caller. Its unit is a check with an RSA key of
// 2048 bits, about 30 µs. A nil Budget is unlimited. A Budget is not safe for concurrent
// use.
type Budget struct{ left int }

// NewBudget returns a budget with a number of units.
func NewBudget(units int) *Budget { return &Budget{units} }

// ErrBudget is the error of a check after the budget is used up.
var ErrBudget = errors.New("the call needs more signature checks than one call may have; present fewer credentials, and only the certificates that they need")

// Take subtracts the cost of one check and reports whether the budget sufficed.
func (b *Budget) Take(key any) bool {
	if b == nil {
		return true
	}
	b.left -= cost(key)
	return b.left >= 0
}

// IsSpent reports whether the budget is used up.
func (b *Budget) IsSpent() bool { return b != nil && b.left <= 0 }

// cost is in units, measured with the standard library.
func cost(key any) int {
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
