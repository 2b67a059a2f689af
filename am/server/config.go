package server

import (
	"cmp"
	"time"
)

// Config bounds what clients may take. Operators set the fields that have a key. A
// zero field means its default.
type Config struct {
	// MaxBody is the largest request in bytes; 16 MiB. Requests carry RSpecs and
	// credentials, 10 to 50 kB as a rule.
	MaxBody int64 `yaml:"max_body"`
	// MaxBodies is how many bytes of requests may be in memory at one time;
	// 64 MiB, for a call takes several times its bytes. One caller may have a
	// quarter of them, and one call of the largest size in any case; another
	// quarter is for calls of up to 32 KiB. Beyond it callers are told to come
	// back (SERVERBUSY).
	MaxBodies int64
	// MaxAnswers is how many bytes of answers may be in memory until they are
	// sent; 256 MiB. An answer that goes to many counts once. One caller may have
	// a quarter of them. Beyond it callers are told to come back (SERVERBUSY).
	MaxAnswers int64
	// MaxCalls is how many calls are worked on at one time; 256. Beyond it
	// callers are told to come back (SERVERBUSY).
	MaxCalls int
	// MaxCallsPerCaller is how many calls one person or tool may have at one
	// time, from the end of the header to the end of the answer, with whatever
	// certificates and from whatever addresses; 80. Strangers, whom no anchor
	// vouches for, count as one caller all together. Beyond it callers are told
	// to come back (SERVERBUSY).
	MaxCallsPerCaller int `yaml:"max_calls_per_caller"`
	// MaxChangesBurst is how many calls of methods that change something one
	// person or tool may make at once, refused ones too; 600. Beyond it they are told
	// to come back (SERVERBUSY).
	MaxChangesBurst int `yaml:"max_changes_burst"`
	// MaxChangesPerMinute is how many more they may make each minute; 120. jFed and
	// omni need a few for an experiment.
	MaxChangesPerMinute int `yaml:"max_changes_per_minute"`
	// MaxConnections is how many connections there may be; 2048, and never more
	// than the process's limit of open files allows beside 512 for other uses.
	// When there are more, one that is silent or not done with its handshake is
	// ended, of the address that has most of them.
	MaxConnections int `yaml:"max_connections"`
	// MaxConnectionsPerAddress is how many of them may come from one IPv4
	// address or one IPv6 network of 64 bits; 256, so that a laboratory behind
	// one address can work.
	MaxConnectionsPerAddress int
	// MaxConnectionsPerCertificate is how many of them may have called with one
	// certificate; 128.
	MaxConnectionsPerCertificate int
	// MaxHeader is the largest header of a request in bytes; 16 KiB. net/http
	// takes up to 4 KiB more before it refuses.
	MaxHeader int
	// HandshakeTimeout is the time for the TLS handshake; half of HeaderTimeout.
	HandshakeTimeout time.Duration
	// HeaderTimeout is the time for the TLS handshake and the header; 20s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// StallTimeout is the time in which each 64 KiB of a call or an answer, or
	// what is left of it, must get through; 30s. A peer slower than that is cut off.
	StallTimeout time.Duration `yaml:"stall_timeout"`
	// ReadTimeout is the time for a whole request; 2m.
	ReadTimeout time.Duration `yaml:"read_timeout"`
	// CallTimeout is the time a call may take inside; 1m.
	CallTimeout time.Duration
	// WriteTimeout is the time from the end of the header to the end of the
	// answer; two and a half times ReadTimeout.
	WriteTimeout time.Duration
	// IdleTimeout is how long a silent connection is kept; 2m.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
}

// DefaultConfig is what a Config of which nothing is said comes to.
func DefaultConfig() Config { return Config{}.withDefaults() }

func (c Config) withDefaults() Config {
	header, read := cmp.Or(c.HeaderTimeout, 20*time.Second), cmp.Or(c.ReadTimeout, 2*time.Minute)
	return Config{
		MaxBody:           cmp.Or(c.MaxBody, 16<<20),
		MaxBodies:         cmp.Or(c.MaxBodies, 64<<20),
		MaxAnswers:        cmp.Or(c.MaxAnswers, 256<<20),
		MaxCalls:          cmp.Or(c.MaxCalls, 256),
		MaxCallsPerCaller: cmp.Or(c.MaxCallsPerCaller, 80),
		MaxChangesBurst:   cmp.Or(c.MaxChangesBurst, 600),
		MaxConnections:    cmp.Or(c.MaxConnections, 2048),
		MaxHeader:         cmp.Or(c.MaxHeader, 16<<10),
		HandshakeTimeout:  cmp.Or(c.HandshakeTimeout, header/2),
		HeaderTimeout:     header,
		StallTimeout:      cmp.Or(c.StallTimeout, 30*time.Second),
		ReadTimeout:       read,
		CallTimeout:       cmp.Or(c.CallTimeout, time.Minute),
		WriteTimeout:      cmp.Or(c.WriteTimeout, read*5/2),
		IdleTimeout:       cmp.Or(c.IdleTimeout, 2*time.Minute),

		MaxChangesPerMinute:          cmp.Or(c.MaxChangesPerMinute, 120),
		MaxConnectionsPerAddress:     cmp.Or(c.MaxConnectionsPerAddress, 256),
		MaxConnectionsPerCertificate: cmp.Or(c.MaxConnectionsPerCertificate, 128),
	}
}
