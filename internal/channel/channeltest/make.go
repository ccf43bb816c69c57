// Package channeltest makes channels for the tests of channel and draw.
package channeltest

import (
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
		if len(fields) == 0 {
			continue
		}
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
