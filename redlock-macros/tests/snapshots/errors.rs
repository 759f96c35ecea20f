#[allow(unused_variables)]
async fn purchase(sku: &str) -> Result<Receipt, ShopError> {
    shop::buy(sku).await
}
::core::compile_error! {
    "unknown option `kye`, did you mean `key`?"
}
::core::compile_error! {
    "expected a duration such as `ttl = \"10s\"`, found an integer"
}
::core::compile_error! {
    "expected `wait = \"5s\"`"
}
::core::compile_error! {
    "`ttl` is given twice: remove one"
}
::core::compile_error! {
    "`10` has no unit: write `\"10s\"`, or `ms`, `m`, `h`, `d`"
}
