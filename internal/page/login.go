package page

import "net/http"

// tokenHeader has a token for catalogd: see package auth.
const tokenHeader = "Catalogd-Authorization"

func loadLogin(*request) (any, error) { return nil, nil }

func (p *page) logIn(http.ResponseWriter, *http.Request)  {}
func (p *page) logOut(http.ResponseWriter, *http.Request) {}
