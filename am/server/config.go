package server

import (
	"cmp"
	"time"
)

// Config holds the limits for clients. Operators can set the fields that have a yaml key. A
// zero field stands for its default, which follows the semicolon in its comment.
type Config struct {
	// MaxBody is the largest request in bytes; 16 MiB. Requests carry RSpecs and
	// credentials, usually 10 to 50 kB.
	MaxBody int64 `yaml:"max_body"`
	// MaxBodies limits the bytes of requests in memory; 64 MiB. While a call is processed, it
	// takes several times its size. One caller may take a quarter of these bytes, or one call of
	// the largest size if that is more. Another quarter is reserved for calls of up to 32 KiB.
	// Further calls get SERVERBUSY.
	MaxBodies int64
	// MaxAnswers limits the bytes of unsent answers in memory; 256 MiB. An answer that is
	// sent to many callers counts once. The unsent answers of one caller may take a quarter
	// of these bytes. Further calls get SERVERBUSY.
	MaxAnswers int64
	// MaxCalls limits the calls in progress; 256. Further calls get SERVERBUSY.
	MaxCalls int
	// MaxCallsPerCaller limits the calls of one user or tool in progress, from the end of
	// the header to the end of the answer, over all certificates and addresses; 80. All
	// callers without a trusted certificate together count as one. Further calls get
	// SERVERBUSY.
	MaxCallsPerCaller int `yaml:"max_calls_per_caller"`
	// MaxChangesBurst limits the calls of changing methods that one user or tool may make
	// at once, including refused ones; 600. Further calls get SERVERBUSY.
	MaxChangesBurst int `yaml:"max_changes_burst"`
	// MaxChangesPerMinute limits the calls of changing methods per minute after the burst is used
	// up; 120. jFed and omni make a few such calls for an experiment.
	MaxChangesPerMinute int `yaml:"max_changes_per_minute"`
	// MaxConnections limits the connections; 2048. It is lower if the process may open too
	// few files (see affordableConnections). For a further connection the server closes one
	// that has no call in progress (see connLimiter).
	MaxConnections int `yaml:"max_connections"`
	// MaxConnectionsPerAddress limits the connections from one IPv4 address or one IPv6
	// network of 64 bits; 256, so that a laboratory behind one address can work.
	MaxConnectionsPerAddress int
	// MaxConnectionsPerCertificate limits the connections of callers that use the same
	// certificate; 128.
	MaxConnectionsPerCertificate int
	// MaxHeader is the largest header of a request in bytes; 16 KiB. net/http accepts up to 4 KiB
	// more.
	MaxHeader int
	// HandshakeTimeout is the time for the TLS handshake; half of HeaderTimeout.
	HandshakeTimeout time.Duration
	// HeaderTimeout is the time for the TLS handshake and the header; 20s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// StallTimeout is the time in which each piece of a call or an answer must be
	// transferred; 30s. A piece has 64 KiB, and the last one may be shorter. The connection
	// of a slower peer is closed.
	StallTimeout time.Duration `yaml:"stall_timeout"`
	// ReadTimeout is the time for a whole request; 2m.
	ReadTimeout time.Duration `yaml:"read_timeout"`
	// CallTimeout is the time for processing a call; 1m.
	CallTimeout time.Duration
	// WriteTimeout is the time from the end of the header to the end of the
	// answer; two and a half times ReadTimeout.
	WriteTimeout time.Duration
	// IdleTimeout is the time after which an idle connection is closed; 2m.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
}

// DefaultConfig returns a Config with all defaults.
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
