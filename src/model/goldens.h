// SPDX-License-Identifier: Apache-2.0
// SHA-256 of the results of every stage of self_test(). A digest changes only with the version of the
// contract.
#pragma once

namespace isobit {

constexpr int kGoldenContract = 1;

struct Golden {
  const char* name;
  const char* digest;
};

constexpr Golden kGoldens[] = {
    {"exp", "664d763e7656cf337fa8d6878953b43f393c52bce994e13bb8fa3980a6868365"},
    {"log", "844400fdd6f3e379f251fa8cfabeb5e47506e8fb05bd633a5bfd7171332507bc"},
    {"log1p", "30c47ffce915265a671cffe08c473cc50a1d4fe429147dd5e664e656cb699464"},
    {"expm1", "8bb52bb0ff492acd3789660178065398942d6fa6e1b002892e7645b87689aab5"},
    {"tanh", "16c71df0b5ec327a1238bcde51f9770efbbe2cd124490b75bdfeb524df4dd6cf"},
    {"erf", "cb6043e8a5200e894a15f5d8a7aafde005c059b76ac9bd00c875a8b0de4a15b5"},
    {"erfc", "19bc2d3d3771de8909b16afb3ac1ca4e2f244240dc319f52745ca2fcf8c4acde"},
    {"sigmoid", "e6b4c10e100027c7b78cd2ece18856b0d06859f893d811fd3ed2c4d3f3eb8d0d"},
    {"softplus", "62462104d27d125d61af2893df341be5aa531ed0d4353aec45a04f8cfe3d0db1"},
    {"silu", "2f0a71c1d12f421f1425a110579c05866d08af8a98f16338fc07b938c175dd3c"},
    {"gelu", "f1ef5b7578b287f1a323de2b18bc63533c3e49b0f5a02635419bae8310cc49aa"},
    {"gelu_tanh", "4b0817f229cf41750382bf48c53a12c8600fb11e832bf8a5dcf6b19455bf8b07"},
    {"sin", "544b43ae09cdd3a4aa24e6cbae2bcc285cb930532049cb57fa40ae761273c897"},
    {"cos", "674307b37d1fc35ad813449f74710a73365f4a4a186b8d2a784566eae106728b"},
    {"relu", "3ca160d6a07030a004fc6becd9a587aee74db94715b5c9d947c3322767da7c8d"},
    {"matrix product", "1b1d369cb7c71165be7fb55a4509201e17d51997cd23abbd9cb20efa7754775a"},
    {"matrix product, bfloat16", "df5b1655719333ef3e4e0c6012963c0d663419019a2e2c58e77229a1d7a17a4f"},
    {"matrix product, int8", "2ea1ed8bba3bab508555041d7852e08d2cabc15e4b015cd5ef179105d1349b00"},
    {"RMSNorm", "24595d0d4c2551675c9b53d724c22d276cffb00604a288866413203fd73ee0c4"},
    {"RMSNorm, offset", "d2a4fe611f2c3ce9977f5b6de134d72cff870e4445dff0c0fdf9a9127e4c4e08"},
    {"LayerNorm", "23af9508911128866c882b96968c05d88c9f868fbf607d4ad89187129b5c7680"},
    {"rotation", "9ff78b10f906854c061f0bbeb20f3bf132244f8087e5600e2ab7ec8ea9dcc397"},
    {"attention", "d26078c7fb536a2d1512540734d6747a9c9472ce7faab0ec6cda3d9d1d6ee7b4"},
    {"attention, window", "8d32be3575a88bebf1a7410835012bd69e289b67b833c9e5eca7f1981613cc26"},
    {"attention, softcap", "de25192ffd032c8732e8156b262869f793a265338dd2ed80b89a8c9f9111fb0d"},
    {"attention, two blocks of a head", "cef3e5db4ccc929f84a32c347105c88032d0af9313e7d30c2123d655126db8b5"},
    {"gated silu", "f4682e4d328adb0fadc85bb92337e04eaba6672da40db0b26e00980c79a170f4"},
    {"gated gelu", "7ba5dbfcdfc19d0d208b901ddf3a0345fec4787e4e3300e4553d606a42af695a"},
    {"gated gelu_tanh", "8d203a497096935fb253ea245ee93e4815aaec3a9d5914402180efd70974e9ff"},
    {"rotary table", "b63beb177a77bfd1b485fa96dd6748456151071278015a2cfbfe37e9f5aee81c"},
    {"rotary table: linear", "bd96b61e2f5918d81f20c9cfd93c636c3b3232fc9989edb8b2d1cbc1f4b5e2e6"},
    {"rotary table: llama3", "c72c22ceefbdac84040e4dafb65590523a7775c68ae894f50d12715d711b66fe"},
    {"rotary table: yarn", "3a378ed918a37f96472fcd6f6f4d002b97d383fc561086f6dac7cde278f45c34"},
    {"rotary table: longrope", "0c4d4b33fcbd56e3a90a20fe28f3b6813f61c80875a3c8e3fc6776aa4ef8d91e"},
    {"block: plain", "d7006aa8ed7458dad77f90c5f06ed1059df7de6ac5bf65f7489f84c7d6daf900"},
    {"block: one_kv_head", "94b6d9e04c0917240f8093aae71e52ba509c4c4b1147add48a912a59131ec575"},
    {"block: as_many_kv_heads", "18a2acd0cffcb9836b93a39f86888924c87b1d589e4428b7a976ec3817f4c26c"},
    {"block: narrow_heads", "8b90cf0abd12b9c1515e2627c516732b56d20e896e5277716a056fd222733f3e"},
    {"block: wide_heads", "badcc245d3aa18d93e315403be51b786db6225d8534eeabf268d1e24ea00248d"},
    {"block: odd_width", "bb1dc15470ddd5cf2218f8208edd913038478e1dee384cc1ecdfa5e2658e4df4"},
    {"block: window", "e4f18b3def3d59be75c37a5ed48dc502640fc49767b82e92e0a94224dff4d96f"},
    {"block: window_of_one", "731df19bc9133c9b9bf4ffe846aed4646b6cba356abc4139286299840936d570"},
    {"block: rope_theta", "4f29a7a65eb61bb1c14c1d4ae122626e5f84abf8b8894c56d039140d6260d4cd"},
    {"block: partial_rotary", "f6c27af1d223d29a66b80ffa41c296302c6c356c91897ba6d4af821cb7c51d86"},
    {"block: linear", "6fdbabe9c7c649e8162ed16115146e8d2e0f7d7500e8d3a5e71ab43a6dd70ace"},
    {"block: llama3", "cb3e9f77ed8b01cfc65684bbe8b3216cf12b04e727731ea799a23a67be2f5a0a"},
    {"block: yarn", "5ae93416dbdeb28acfee030c85261aa25b417ec814c5fd184df044ca9c295b85"},
    {"block: longrope", "e8938981890db753e1cbd9be535fe8915301208ab307d636df716d3d3fe258e6"},
    {"block: longrope_short", "5b29ca4b1727b20214e1f0df494b9dc2b3826165b5f3ae3e8e8d8048b950472e"},
    {"block: dynamic", "1320ac774a475f03931df7d9043f3a3b17af7096489377ea2d1de8dbf06b27d8"},
    {"block: qkv_bias", "72326467add4d1d18eb0c9b5f0d068d30c3b16d484859d3a7109c89c032ca454"},
    {"block: o_bias", "3cafae1649b427e2f9fd7b070c75fb0157908531ea90647d0f9c574b4a6a2865"},
    {"block: norm_eps", "e863a6f3b79068a94548d16d233d02d0f9d3d2b4d5a3ab605283524a73a93dd5"},
    {"block: layernorm", "8a1eabce83f8d3ff49219ebbe101268c7f8e1a8d27c28454cec685fc17d77dae"},
    {"block: layernorm_bias", "63566c6aad1638fa5375549af11a170b837d0effbbbb92108c53b8ec18db9f8b"},
    {"block: rmsnorm_offset", "f3899a11bb01f8b48bd68d7f4fa81761f14778f9d6db90f0f52170f7ef40760b"},
    {"block: gelu", "5915c237f93488076d169de173dff1ab8de0e030b8f1cfe76b1ce82edca358bf"},
    {"block: gelu_tanh", "ff9a8a35e9ebfe526daa7af5e42457e39a529039c6a5641066e9826b532cd599"},
    {"block: geglu", "e5ccfd6e997403f20a10ae08911f53a1a7d7e2cf903e9396e75905552c64794a"},
    {"block: geglu_tanh", "2b6df91c984c06229bd79e589a8c50da24adeedaa0647ab17c50b70d7d2a9f33"},
    {"block: mlp_bias", "e7827b53b1ab40f2d4d4e82152b7b906908a28f7d7cb2df2874d208e3df71b8c"},
    {"block: mlp_bias_ungated", "806fd6321efe6bf2e61f6a0afebfd5854618eba7d81d63681ba97468a0c7a0f7"},
    {"block: qk_norm", "8363586c78e809270ed756dd8c43e9b476ceb996cb0e0e3201cdd75b06f35cbd"},
    {"block: qk_norm_offset", "f5b97e3751d34228b9ee523a106e1e413b78f685911f0605700e496ad7053556"},
    {"block: softcap", "0647e8029aac9a43ccb3fa03caffbc3e6ffe6ece7787cdd5ea553e807db889c9"},
    {"block: bfloat16_weights", "02bf07f49c1c6fa7c04dcbe737c920d700bef24f7d306c9b34634a6dff7be652"},
    {"block: int8_weights", "7ee4586d83b2fca21a97680539a7800bfdd08adb86a566b1d97fd87bb1f8475e"},
    {"block: long", "12685559a73038e25cf59fc43bddb5f216fc2e14ab911eb217a6968ce98d3b25"},
    {"block: long, window", "1ac27880773377583ad28f7243233e12a258958319b97a585c21080f2dc9bce0"},
    {"model: llama", "ea43c5e0b5731831d795274f2d6ade82ff87e7c302171bcd1e0b5665cae943b3"},
    {"model: mistral", "d27f8dac9f0a7d78cf4519918c4d80b576102644e2188bf1f06b77b3b016054e"},
    {"model: qwen2", "1bf5d446d3ead353a9645f916a9d0311974dd5318d3031625b38a454b58126fa"},
    {"model: qwen3", "d90b197a6e880d911df3b89287b221cb4a653502635746e5bf45e3d76e7245db"},
    {"model: phi3", "533b5192c219025138ec9b541d4f6f1229d42c79863c8a1737523958e3062993"},
};

}  // namespace isobit
