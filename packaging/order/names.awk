# A function's name ends with a hash (`17h...E`, and perhaps the number of a copy), or has one for each crate (`Cs..._`). They change with each
# version of the crate or of Rust.
function without_hashes(name) {
    if (name ~ /^_R/) gsub(/Cs[0-9A-Za-z]+_/, "Cs_", name)
    else sub(/17h[0-9a-f]+E(\.[0-9a-z.]+)?$/, "", name)
    return name
}

