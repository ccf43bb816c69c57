// Package channeltest makes channels for the tests of channel and draw.
package channeltest

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// Parse returns a channel of package foo. Entries have the form
//
//	1.2.0 replaces 1.1.0 skips 1.0.1,1.0.2 range >=1.0.0 <1.2.0
//
// The bundle of version 1.2.0 has the name foo.v1.2.0; anything else is a bundle name.
func Parse(entries ...string) channel.Channel {
	c := channel.Channel{Package: "foo", Name: "stable"}
	for _, text := range entries {
		text, skipRange, _ := strings.Cut(text, " range ")
		fields := strings.Fields(text)
		e := channel.Entry{Name: bundle(fields[0]), SkipRange: skipRange}
		if e.Name != fields[0] {
			e.Version = fields[0]
		}
		for i := 1; i+1 < len(fields); i += 2 {
			switch fields[i] {
			case "replaces":
				e.Replaces = bundle(fields[i+1])
			case "skips":
				for name := range strings.SplitSeq(fields[i+1], ",") {
					e.Skips = append(e.Skips, bundle(name))
				}
			case "deprecated":
				e.Deprecation = &channel.Deprecation{Message: fields[i+1]}
			}
		}
		c.Entries = append(c.Entries, e)
	}
	return c
}

func bundle(version string) string {
	if _, err := semver.Parse(version); err != nil {
		return version
	}
	return "foo.v" + version
}

// FromBytes returns a channel with one entry per four bytes. They select what it replaces, skips and covers among at most 24 bundles, some
// of which have no version or no entry.
func FromBytes(data []byte, text string) channel.Channel {
	c := channel.Channel{Package: text, Name: text}
	name := func(b byte) string {
		if b %= 24; b < 22 {
			return fmt.Sprintf("foo.v1.%d.0", b)
		}
		return text
	}
	for i := 0; i+4 <= len(data) && i < 4*100; i += 4 {
		e := channel.Entry{Name: name(byte(i / 4))}
		if i/4 >= 22 {
			e.Name = fmt.Sprintf("%s.%d", text, i)
		}
		if data[i] < 250 {
			e.Version = fmt.Sprintf("1.%d.0", data[i]%24)
		}
		if data[i+1] < 200 {
			e.Replaces = name(data[i+1])
		}
		for n := range data[i+2] % 4 {
			e.Skips = append(e.Skips, name(data[i+2]/4+n))
		}
		switch b := data[i+3]; {
		case b < 60:
			e.SkipRange = fmt.Sprintf(">=1.%d.0 <1.%d.0", b%8, b/4)
		case b == 60:
			e.SkipRange, e.Deprecation = text, &channel.Deprecation{Message: text}
		}
		c.Entries = append(c.Entries, e)
	}
	return c
}
