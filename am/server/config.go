package server

import (
	"cmp"
	"time"
)

// Config holds what an operator may set. A zero field means its default.
type Config struct {
	// MaxBody is the largest request in bytes; 16 MiB. Requests carry RSpecs and
	// credentials, 10 to 50 kB as a rule.
	MaxBody int64 `mapstructure:"max_body"`
	// MaxBodies is how many bytes of requests may be in memory at one time;
	// 64 MiB, for a call takes several times its bytes. Beyond it callers are told to come back (503).
	MaxBodies int64 `mapstructure:"max_bodies"`
	// MaxCalls is how many calls are worked on at one time; 256. Beyond it
	// callers are told to come back (503).
	MaxCalls int `mapstructure:"max_calls"`
	// MaxHeader is the largest header of a request in bytes; 64 KiB.
	MaxHeader int `mapstructure:"max_header"`
	// HeaderTimeout is the time for the TLS handshake and the header; 20s.
	HeaderTimeout time.Duration `mapstructure:"header_timeout"`
	// ReadTimeout is the time for a whole request; 2m.
	ReadTimeout time.Duration `mapstructure:"read_timeout"`
	// CallTimeout is the time a call may take inside; 1m.
	CallTimeout time.Duration `mapstructure:"call_timeout"`
	// WriteTimeout is the time from the end of the header to the end of the
	// answer; 5m.
	WriteTimeout time.Duration `mapstructure:"write_timeout"`
	// IdleTimeout is how long a silent connection is kept; 2m.
	IdleTimeout time.Duration `mapstructure:"idle_timeout"`
}

// DefaultConfig is what a Config of which nothing is said comes to.
func DefaultConfig() Config { return Config{}.withDefaults() }

func (c Config) withDefaults() Config {
	return Config{
		MaxBody:       cmp.Or(c.MaxBody, 16<<20),
		MaxBodies:     cmp.Or(c.MaxBodies, 64<<20),
		MaxCalls:      cmp.Or(c.MaxCalls, 256),
		MaxHeader:     cmp.Or(c.MaxHeader, 64<<10),
		HeaderTimeout: cmp.Or(c.HeaderTimeout, 20*time.Second),
		ReadTimeout:   cmp.Or(c.ReadTimeout, 2*time.Minute),
		CallTimeout:   cmp.Or(c.CallTimeout, time.Minute),
		WriteTimeout:  cmp.Or(c.WriteTimeout, 5*time.Minute),
		IdleTimeout:   cmp.Or(c.IdleTimeout, 2*time.Minute),
	}
}
