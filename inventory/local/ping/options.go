package ping

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

type options struct {
	count    int           // of requests; 0: until ping is interrupted
	interval time.Duration // between requests
	deadline time.Duration // -w: limit of the whole run; 0 means none
	wait     time.Duration // -W: how long to wait for the last answers
	size     int           // bytes after the header
	ttl      int           // 0: the system's
	from     string        // an interface, or an address of this host
	family   byte          // '4', '6', or 0 for either
	quiet    bool
	host     string
}

const usage = `usage: ping [-4|-6] [-nqv] [-c COUNT] [-i SECONDS] [-w DEADLINE] [-W TIMEOUT] [-s SIZE] [-t TTL] [-I INTERFACE] HOST
this is the testbed's small ping; it has no other options`

var errUsage = errors.New(usage)

const maxSize = 65507

// parse accepts options before and after the host.
func parse(args []string) (*options, error) {
	o := &options{interval: time.Second, wait: 10 * time.Second, size: 56}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if len(word) < 2 || word[0] != '-' {
			if o.host != "" {
				return nil, errUsage
			}
			o.host = word
			continue
		}
		for letters := word[1:]; letters != ""; {
			c := letters[0]
			letters = letters[1:]
			if strings.IndexByte("ciwWstI", c) < 0 {
				if err := o.flag(c); err != nil {
					return nil, err
				}
				continue
			}
			if letters == "" {
				if len(args) == 0 {
					return nil, fmt.Errorf("option -%c needs a value\n%w", c, errUsage)
				}
				letters, args = args[0], args[1:]
			}
			if err := o.value(c, letters); err != nil {
				return nil, err
			}
			break
		}
	}
	if o.host == "" {
		return nil, errUsage
	}
	return o, nil
}

func (o *options) flag(c byte) error {
	switch c {
	case '4', '6':
		o.family = c
	case 'q':
		o.quiet = true
	case 'n', 'v', 'U':
	default:
		return fmt.Errorf("invalid option -- '%c'\n%w", c, errUsage)
	}
	return nil
}

func (o *options) value(c byte, text string) (err error) {
	switch c {
	case 'c':
		o.count, err = number(text, 1, math.MaxInt32)
	case 's':
		o.size, err = number(text, 0, maxSize)
	case 't':
		o.ttl, err = number(text, 1, 255)
	case 'i':
		o.interval, err = seconds(text, 2*time.Millisecond)
	case 'w':
		o.deadline, err = seconds(text, 0)
	case 'W':
		o.wait, err = seconds(text, 0)
	case 'I':
		o.from = text
	}
	return err
}

// number returns errors with the words of iputils.
func number(text string, lowest, highest int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("invalid argument: '%s'", text)
	}
	if n < lowest || n > highest {
		return 0, fmt.Errorf("invalid argument: '%s': out of range: %d <= value <= %d", text, lowest, highest)
	}
	return n, nil
}

// seconds returns shortest instead of a shorter duration.
func seconds(text string, shortest time.Duration) (time.Duration, error) {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(s) || s < 0 || s > 1e6 {
		return 0, fmt.Errorf("bad timing interval: %s", text)
	}
	return max(time.Duration(s*float64(time.Second)), shortest), nil
}
