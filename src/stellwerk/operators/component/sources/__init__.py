"""Where the manifests of a Component come from.

sources               the source of a Component and its state
artifacts             the files of a source
web                   of a web server: what it offers, and its files
blueprints            Blueprints; blueprint_versions: their versions
http_repositories     looks at web servers, which have no watch
credentials           credentials for downloads and decryption
"""
