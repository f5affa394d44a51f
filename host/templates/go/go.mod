module plugin.local/{{ name }}

go 1.24
